//! The list of images: a table for people, JSON for programs.

use rubelet_runtime::image::{Image, Lease};
use serde_json::json;

use crate::columns::columns;

const HEADER: [&str; 5] = ["IMAGE", "TAG", "ID", "SIZE", "CONTAINERS"];

/// Formats images as aligned columns, one row per tag.
pub(super) fn table(images: &[Image], leases: &[Lease]) -> String {
    let mut rows = Vec::new();
    for image in images {
        let used = leases.iter().filter(|lease| lease.image == image.id).count();
        let mut names: Vec<(String, String)> = image.repo_tags.iter().map(|tag| split(tag)).collect();
        if names.is_empty() {
            // The repository is known even if the tag has moved to another image.
            let repository =
                image.repo_digests.first().and_then(|name| name.split_once('@')).map(|(name, _)| name);
            names.push((repository.unwrap_or("<none>").to_owned(), "<none>".to_owned()));
        }
        for (name, tag) in names {
            let size = if image.is_built_in() { "-".to_owned() } else { size(image.size) };
            let used = if used == 0 { String::new() } else { used.to_string() };
            rows.push([name, tag, image.short_id().to_owned(), size, used]);
        }
    }
    rows.sort();
    columns(HEADER, &rows)
}

/// Formats everything as one JSON document.
pub(super) fn json(images: &[Image], leases: &[Lease]) -> String {
    let images: Vec<_> = images
        .iter()
        .map(|image| {
            let used: Vec<&str> = leases
                .iter()
                .filter(|lease| lease.image == image.id)
                .map(|lease| lease.key.as_str())
                .collect();
            json!({
                "id": image.id,
                "repoTags": image.repo_tags,
                "repoDigests": image.repo_digests,
                "size": image.size,
                "builtIn": image.is_built_in(),
                "layers": image.layers(),
                "containers": used,
                "config": {
                    "entrypoint": image.config.entrypoint,
                    "cmd": image.config.cmd,
                    "env": image.config.env,
                    "user": image.config.user,
                    "workingDir": image.config.working_dir,
                    "stopSignal": image.config.stop_signal,
                    "exposedPorts": image.config.exposed_ports,
                    "volumes": image.config.volumes,
                    "labels": image.config.labels,
                },
            })
        })
        .collect();
    format!("{:#}", json!({ "images": images }))
}

/// Splits `repository:tag`; the repository may contain a port.
fn split(name: &str) -> (String, String) {
    match name.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository.to_owned(), tag.to_owned()),
        _ => (name.to_owned(), String::new()),
    }
}

/// Formats a number of bytes for people, with three digits.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use rubelet_runtime::image::{Content, Digest, ImageConfig};

    use super::*;

    fn image(seed: &str, tags: &[&str], digests: &[&str]) -> Image {
        Image {
            id: Digest::of(seed.as_bytes()),
            repo_tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            repo_digests: digests.iter().map(|&digest| digest.to_owned()).collect(),
            size: 4_270_000,
            config: ImageConfig::default(),
            content: Content::Layers(vec![]),
        }
    }

    fn sample() -> (Vec<Image>, Vec<Lease>) {
        let app = image("a", &["docker.io/library/app:1", "localhost:5000/app:2"], &[]);
        let lease = Lease { key: "c1".to_owned(), image: app.id.clone(), layers: vec![] };
        let host = Image { content: Content::Host, ..image("h", &["host:latest"], &[]) };
        (vec![host, app, image("b", &[], &["r.io/x@sha256:0"]), image("c", &[], &[])], vec![lease])
    }

    #[test]
    fn the_table_has_a_row_for_every_tag() {
        let (images, leases) = sample();
        let text = anstream::adapter::strip_str(&table(&images, &leases)).to_string();
        insta::assert_snapshot!(text, @r"
        IMAGE                   TAG      ID             SIZE     CONTAINERS
        <none>                  <none>   2e7d2c03a950   4.27MB
        docker.io/library/app   1        ca978112ca1b   4.27MB   1
        host                    latest   aaa9402664f1   -
        localhost:5000/app      2        ca978112ca1b   4.27MB   1
        r.io/x                  <none>   3e23e8160039   4.27MB
        ");
    }

    #[test]
    fn json_has_everything() {
        let (images, leases) = sample();
        let value: serde_json::Value = serde_json::from_str(&json(&images, &leases)).unwrap();
        assert_eq!(value["images"][0]["builtIn"], true);
        assert_eq!(value["images"][1]["containers"][0], "c1");
        assert_eq!(value["images"][1]["repoTags"][1], "localhost:5000/app:2");
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0B"),
            (999, "999B"),
            (1000, "1.00kB"),
            (4_270_000, "4.27MB"),
            (99_940_000, "99.9MB"),
            (99_960_000, "100MB"),
            (999_600_000, "1.00GB"),
            (u64::MAX, "18447PB"),
        ] {
            assert_eq!(size(bytes), text, "{bytes}");
        }
    }
}
