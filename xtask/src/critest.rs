//! `cargo xtask critest`: the upstream conformance tests against `rubelet runtime`.
//!
//! Specs that are known to fail are listed here with the reason, and in `docs/runtime.md`. Any other failure is an
//! error, and so is an entry that now passes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use rubelet_testbed::{BUSYBOX, Embedded, WEB, go_cache, image_archive, program};
use serde_json::Value;

use crate::{go_tools, run};

/// Arguments of `cargo xtask critest`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only specs whose name matches this regular expression
    #[arg(long, default_value = "")]
    focus: String,
    /// Print the report of every failed spec
    #[arg(long)]
    details: bool,
}

/// Beginnings of spec names, and why these cannot pass here.
const KNOWN: &[(&str, &str)] = &[
    ("Streaming ", "Exec, Attach and PortForward answer Unimplemented"),
    ("Image Manager public image with", REGISTRY),
    ("Image Manager image status", REGISTRY),
    ("Image Manager listImage", REGISTRY),
    ("Image Manager removing image", REGISTRY),
    ("Image Consistency", REGISTRY),
    ("Image Identifier Consistency", REGISTRY),
    ("Multiple Containers", REGISTRY),
    ("Security Context NamespaceOption runtime should support HostPID", REGISTRY),
    ("Security Context NamespaceOption runtime should support PodPID", REGISTRY),
    ("Security Context NamespaceOption runtime should support ContainerPID", REGISTRY),
    ("Security Context SupplementalGroupsPolicy", REGISTRY),
    ("Security Context NoNewPrivs", REGISTRY),
    (
        "Container runtime should support basic operations on container runtime should support execSync with timeout",
        BUSYBOX_LACKS,
    ),
    ("Security Context NamespaceOption runtime should support HostIpc", BUSYBOX_LACKS),
    ("Security Context bucket runtime should support MaskedPaths", BUSYBOX_LACKS),
];

const REGISTRY: &str = "the images of this spec are in registries that a test machine need not reach";
const BUSYBOX_LACKS: &str =
    "Debian's busybox has no pgrep and no ipcs, and runs ls without asking the file system";

/// Returns whether a spec that fails here for this reason may pass on another machine.
fn depends_on_machine(why: &str) -> bool {
    [REGISTRY, BUSYBOX_LACKS].contains(&why)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let go = program::find("go")
        .context("critest is built with Go, and there is none: install it, and have `go` in PATH")?;
    go_tools::build(&go, &go_cache::CRITEST)?;
    run::run(run::cargo().args(["build", "--quiet", "--package", "rubelet"]))?;
    let rubelet = std::env::current_exe()?.with_file_name("rubelet");
    let runtime = start(&rubelet)?;
    let report = examine(args, &runtime)?;
    judge(&report, args.details)
}

fn start(rubelet: &Path) -> anyhow::Result<Embedded> {
    let program = rubelet.to_owned();
    let runtime = Embedded::start("critest", move |place| {
        let cni = place.dir().join("cni");
        write_network(&cni, place.dir()).expect("a network");
        let log = fs::File::create(place.dir().join("log")).expect("a log");
        let mut command = Command::new(&program);
        command.arg("runtime").arg("--socket").arg(place.socket()).arg("--data-dir").arg(place.data());
        command.arg("--cni-conf-dir").arg(cni).stderr(log);
        command
    })
    .context("containers need root: run this as root")?;
    let archive = runtime.dir().join("images.tar");
    fs::write(&archive, image_archive()?)?;
    let mut import = Command::new(rubelet);
    import.args(["image", "import"]).arg(&archive).arg("--data-dir").arg(runtime.data());
    let imported = import.output()?;
    anyhow::ensure!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    Ok(runtime)
}

/// Writes a network configuration without a bridge: every pod has a link to the host that is gone with the pod.
fn write_network(cni: &Path, dir: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(cni)?;
    let list = serde_json::json!({
        "cniVersion": "1.0.0",
        "name": "critest",
        "plugins": [
            {
                "type": "ptp",
                "ipam": { "type": "host-local", "ranges": [[{ "subnet": "10.214.0.0/24" }]], "dataDir": dir.join("ipam") },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    Ok(fs::write(cni.join("10-critest.conflist"), list.to_string())?)
}

/// Runs the suite, and returns its specs with their results.
fn examine(args: &Args, runtime: &Embedded) -> anyhow::Result<Vec<Spec>> {
    let images = runtime.dir().join("images.yaml");
    fs::write(&images, format!("defaultTestContainerImage: {BUSYBOX}\nwebServerTestImage: {WEB}\n"))?;
    let report: PathBuf = runtime.dir().join("report.json");
    let endpoint = format!("unix://{}", runtime.socket().display());
    let mut critest = Command::new(go_cache::CRITEST.bin_dir().join("critest"));
    critest.args(["-runtime-endpoint", &endpoint, "-image-endpoint", &endpoint]);
    critest.arg("-test-images-file").arg(images).arg(format!("-ginkgo.json-report={}", report.display()));
    critest.args([&format!("-ginkgo.focus={}", args.focus), "-ginkgo.no-color", "-ginkgo.succinct"]);
    critest.current_dir(runtime.dir()).stdout(fs::File::create(runtime.dir().join("output"))?);
    let _ = critest.status().context("critest does not run")?;
    let text = fs::read_to_string(&report).with_context(|| {
        let output = fs::read_to_string(runtime.dir().join("output")).unwrap_or_default();
        format!("critest wrote no report: {output}")
    })?;
    Ok(Spec::all(&serde_json::from_str(&text)?))
}

#[derive(Debug)]
struct Spec {
    name: String,
    state: String,
    message: String,
}

impl Spec {
    fn all(report: &Value) -> Vec<Self> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let specs = list(report).into_iter().flat_map(|suite| list(&suite["SpecReports"]));
        let its = specs.filter(|spec| spec["LeafNodeType"] == "It");
        its.map(|spec| {
            let mut words: Vec<String> = list(&spec["ContainerHierarchyTexts"]).iter().map(text).collect();
            words.push(text(&spec["LeafNodeText"]));
            let message = text(&spec["Failure"]["Message"]);
            Self { name: words.join(" ").replace("[k8s.io] ", ""), state: text(&spec["State"]), message }
        })
        .collect()
    }
}

fn judge(specs: &[Spec], details: bool) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for spec in specs {
        let known = KNOWN.iter().find(|(name, _)| spec.name.starts_with(name));
        match (spec.state.as_str(), known) {
            ("passed", Some((_, why))) if !depends_on_machine(why) => {
                wrong.push(format!("passes now: {}", spec.name));
            }
            ("passed", _) => println!("passed   {}", spec.name),
            ("skipped" | "pending", _) => {}
            (_, Some((_, why))) => println!("known    {}: {why}", spec.name),
            (_, None) => {
                wrong.push(format!("failed: {}", spec.name));
                if details {
                    println!("{}\n    {}", spec.name, spec.message.replace('\n', "\n    "));
                }
            }
        }
    }
    let count = |state: &str| specs.iter().filter(|spec| spec.state == state).count();
    println!("{} passed, {} failed, {} skipped", count("passed"), count("failed"), count("skipped"));
    if !wrong.is_empty() {
        bail!("not as the list of known failures says:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}
