//! Turns the text of a file into its pods, config maps and secrets.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::Resource;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;

use super::bounded::{self, Bounded};
use super::problem::beginning;
use super::tree::{self, LARGEST_MANIFEST, Node, Value};
use super::{
    FieldError, Issue, ObjectKey, Objects, Origin, Problem, Severity, default, fields, kind, static_pod,
    typed, validate,
};

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifest {
    /// Pods, defaulted, valid and named for this node.
    pub pods: Vec<Arc<Pod>>,
    /// The config maps and secrets beside them.
    pub objects: Objects,
    /// Remarks, and objects that are not used because another one has the same name.
    pub warnings: Vec<Problem>,
}

/// Loads a manifest: YAML or JSON, one document or several, single objects or lists of them.
///
/// # Errors
///
/// If anything in it cannot be used; returns all problems that were found.
pub fn load(text: &[u8], origin: &Origin) -> Result<Manifest, Vec<Problem>> {
    let whole = |issue| vec![Problem::error(origin.place.as_str(), issue)];
    if text.len() > LARGEST_MANIFEST {
        return Err(whole(Issue::TooLarge { limit: LARGEST_MANIFEST }));
    }
    let text =
        str::from_utf8(text).map_err(|error| whole(Issue::Syntax(format!("is not UTF-8 text: {error}"))))?;
    let documents = tree::documents(text.trim_start_matches('\u{feff}')).map_err(|error| {
        vec![Problem {
            line: error.line,
            ..Problem::error(origin.place.as_str(), Issue::Syntax(error.message))
        }]
    })?;

    let mut loading = Loading {
        origin,
        manifest: Manifest::default(),
        pods_seen: 0,
        pod_names: BTreeSet::new(),
        pod_uids: BTreeSet::new(),
        problems: Vec::new(),
        is_spoilt: false,
        left_out: BTreeMap::new(),
        document: 0,
        has_list: false,
    };
    for (index, node) in documents.iter().enumerate() {
        loading.document = index + 1;
        loading.document(node);
    }
    loading.finish()
}

/// How much of a name is shown: no valid one is longer.
const LONGEST_NAME: usize = 253;

/// Far more than a node runs: a kubelet takes 110.
const MOST_PODS: usize = 1000;

struct Loading<'a> {
    origin: &'a Origin,
    manifest: Manifest,
    /// Valid and invalid ones.
    pods_seen: usize,
    pod_names: BTreeSet<ObjectKey>,
    pod_uids: BTreeSet<String>,
    problems: Vec<Problem>,
    /// Whether the manifest cannot be used.
    is_spoilt: bool,
    /// How many problems were left out.
    left_out: BTreeMap<Severity, usize>,
    document: usize,
    /// A list states what it has, even if that is nothing.
    has_list: bool,
}

impl Loading<'_> {
    fn finish(mut self) -> Result<Manifest, Vec<Problem>> {
        let is_empty = self.manifest.pods.is_empty() && self.manifest.objects.is_empty();
        if self.problems.is_empty() && is_empty && !self.has_list {
            self.problems.push(Problem::error(self.origin.place.as_str(), Issue::Empty));
            self.is_spoilt = true;
        } else if is_empty && !self.is_spoilt {
            // Nothing in the file can be used, so the problems of its documents are not mere remarks.
            let of_documents = |problem: &&mut Problem| matches!(problem.issue, Issue::Kind { .. });
            for problem in self.problems.iter_mut().filter(of_documents) {
                problem.severity = Severity::Error;
                self.is_spoilt = true;
            }
        }
        for (severity, count) in self.left_out {
            let more = Problem::error(self.origin.place.as_str(), Issue::LeftOut { count });
            self.problems.push(Problem { severity, ..more });
        }
        if self.is_spoilt {
            return Err(self.problems);
        }
        self.manifest.warnings = self.problems;
        Ok(self.manifest)
    }

    fn document(&mut self, node: &Node<'_>) {
        let Value::Map(_) = node.value else {
            return self.tell(
                node.line,
                None,
                Severity::Error,
                Issue::Kind { found: "a document that is not an object".to_owned(), meant: None },
            );
        };
        let text = |key: &str| node.get(key).and_then(Node::text).unwrap_or_default();
        match (text("apiVersion"), text("kind")) {
            (kind::VERSION, "List" | "PodList" | "ConfigMapList" | "SecretList") => self.list(node),
            (kind::VERSION, kind) => self.object(node, kind),
            (version, kind) => self.other_kind(node, version, kind),
        }
    }

    fn list(&mut self, node: &Node<'_>) {
        self.has_list = true;
        let of = node
            .get("kind")
            .and_then(Node::text)
            .and_then(|kind| kind.strip_suffix("List"))
            .unwrap_or_default();
        self.note_unknown(node);
        let items = match node.get("items").map(|items| (items.line, &items.value)) {
            Some((_, Value::List(items))) => &items[..],
            // Go writes an empty list this way.
            Some((_, Value::Null)) => &[],
            wrong => {
                let line = wrong.map_or(node.line, |(line, _)| line);
                let issue = Issue::Type { path: "items".to_owned(), message: "expected a list".to_owned() };
                return self.tell(line, None, Severity::Error, issue);
            }
        };
        for item in items {
            // Items of a typed list need not state their kind.
            match item.get("kind").and_then(Node::text) {
                Some(_) => self.document(item),
                None => self.object(item, of),
            }
        }
    }

    /// A list is not decoded as a type: its items state their own.
    fn note_unknown(&mut self, list: &Node<'_>) {
        const KNOWN: &[&str] = &["apiVersion", "kind", "metadata", "items"];
        let Value::Map(entries) = &list.value else { return };
        for (name, value) in entries.iter().filter(|(name, _)| !KNOWN.contains(&&**name)) {
            let issue =
                Issue::UnknownField { path: shown_name(name).to_owned(), meant: typed::alike(name, KNOWN) };
            self.tell(value.line, None, Severity::Warning, issue);
        }
    }

    fn object(&mut self, node: &Node<'_>, kind: &str) {
        match kind {
            "Pod" => self.pod(node),
            "ConfigMap" => self.config_map(node),
            "Secret" => self.secret(node),
            _ => self.other_kind(node, kind::VERSION, kind),
        }
    }

    fn other_kind(&mut self, node: &Node<'_>, version: &str, kind: &str) {
        let found = match (shown_name(version), shown_name(kind)) {
            ("", "") => "a document without apiVersion and kind".to_owned(),
            (version, "") => format!("a document of {version} without a kind"),
            ("", kind) => format!("{kind} without an apiVersion"),
            (version, kind) => format!("{version} {kind}"),
        };
        match kind::meant(kind) {
            _ if version.is_empty() || kind.is_empty() => {
                self.note_slips(node);
                self.tell(node.line, None, Severity::Error, Issue::Kind { found, meant: None });
            }
            // If either of these were left out with a remark, a running pod would be ended.
            Some(meant) if meant == kind => {
                let issue = FieldError::Unsupported {
                    path: "apiVersion".to_owned(),
                    value: shown_name(version).to_owned(),
                    supported: &[kind::VERSION],
                };
                let subject = named(node, kind);
                self.tell(node.line_of("apiVersion"), subject, Severity::Error, issue.into());
            }
            Some(meant) => {
                let issue = Issue::Kind { found, meant: Some(meant) };
                self.tell(node.line_of("kind"), None, Severity::Error, issue);
            }
            None => self.tell(node.line, None, Severity::Warning, Issue::Kind { found, meant: None }),
        }
    }

    /// Reports misspelt `apiVersion` and `kind` keys, in a document that lacks them.
    fn note_slips(&mut self, document: &Node<'_>) {
        const KNOWN: &[&str] = &["apiVersion", "kind"];
        let Value::Map(entries) = &document.value else { return };
        for (name, value) in entries.iter().filter(|(name, _)| !KNOWN.contains(&&**name)) {
            if let Some(meant) = typed::alike(name, KNOWN) {
                let issue = Issue::UnknownField { path: shown_name(name).to_owned(), meant: Some(meant) };
                self.tell(value.line, None, Severity::Warning, issue);
            }
        }
    }

    fn pod(&mut self, node: &Node<'_>) {
        self.pods_seen += 1;
        if self.pods_seen > MOST_PODS {
            if self.pods_seen == MOST_PODS + 1 {
                self.tell(node.line, None, Severity::Error, Issue::TooManyPods { limit: MOST_PODS });
            }
            return;
        }
        let Some(mut pod) = self.typed::<Pod>(node) else { return };
        for (line, issue) in fields::ignored(node) {
            self.tell(line, Some(subject("Pod", &pod.metadata)), Severity::Warning, issue);
        }
        default::pod(&mut pod);
        static_pod::adopt(&mut pod, self.origin);
        let subject = subject("Pod", &pod.metadata);
        let mistakes = validate::pod(&pod);
        let is_valid = mistakes.kept.is_empty();
        self.refuse(node, &subject, mistakes);
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if !self.pod_names.insert(key(&mut pod.metadata)) {
            self.tell(node.line, Some(subject), Severity::Error, Issue::Duplicate);
        } else if self.pod_uids.contains(&uid) {
            // It is not known here which of the two is running: that one would be ended if the other one came first.
            let issue = Issue::DuplicateUid(shown_name(&uid).to_owned());
            self.tell(node.line_of("metadata.uid"), Some(subject), Severity::Error, issue);
        } else if is_valid {
            self.pod_uids.insert(uid);
            // A copy has exactly the capacity it needs; what the decoder returns has a third more, for as long as it is
            // kept.
            self.manifest.pods.push(Arc::new(pod.clone()));
        }
    }

    fn config_map(&mut self, node: &Node<'_>) {
        let Some(mut map) = self.typed::<ConfigMap>(node) else { return };
        let key = key(&mut map.metadata);
        let subject = subject("ConfigMap", &map.metadata);
        self.refuse(node, &subject, validate::config_map(&map));
        self.note_immutable(node, &subject, map.immutable);
        match self.manifest.objects.config_maps.entry(key) {
            Entry::Vacant(place) => drop(place.insert(Arc::new(map))),
            Entry::Occupied(_) => self.tell(node.line, Some(subject), Severity::Error, Issue::Duplicate),
        }
    }

    fn secret(&mut self, node: &Node<'_>) {
        let Some(mut secret) = self.typed::<Secret>(node) else { return };
        let plain = secret.string_data.take().unwrap_or_default();
        let data = secret.data.get_or_insert_default();
        data.extend(plain.into_iter().map(|(key, value)| (key, k8s_openapi::ByteString(value.into_bytes()))));
        let key = key(&mut secret.metadata);
        let subject = subject("Secret", &secret.metadata);
        self.refuse(node, &subject, validate::secret(&secret));
        self.note_immutable(node, &subject, secret.immutable);
        match self.manifest.objects.secrets.entry(key) {
            Entry::Vacant(place) => drop(place.insert(Arc::new(secret))),
            Entry::Occupied(_) => self.tell(node.line, Some(subject), Severity::Error, Issue::Duplicate),
        }
    }

    /// In a cluster, nobody may change an immutable object; here it is a file, and anyone who can write the file may.
    fn note_immutable(&mut self, node: &Node<'_>, subject: &str, immutable: Option<bool>) {
        if immutable == Some(true) {
            let line = node.get("immutable").map_or(node.line, |field| field.line);
            let what = "changes to the file are applied all the same";
            let issue = Issue::IgnoredField { path: "immutable".to_owned(), what };
            self.tell(line, Some(subject.to_owned()), Severity::Warning, issue);
        }
    }

    fn typed<T: DeserializeOwned + Resource>(&mut self, node: &Node<'_>) -> Option<T> {
        let subject = named(node, T::KIND);
        match typed::decode::<T>(node) {
            Ok((object, unknown)) => {
                for field in unknown.kept {
                    let issue = Issue::UnknownField { path: field.path, meant: field.meant };
                    self.tell(field.line, subject.clone(), Severity::Warning, issue);
                }
                self.leave_out(Severity::Warning, unknown.left_out);
                Some(object)
            }
            Err(error) => {
                let issue = Issue::Type { path: error.path, message: error.message };
                self.tell(error.line, subject, Severity::Error, issue);
                None
            }
        }
    }

    fn refuse(&mut self, node: &Node<'_>, subject: &str, errors: Bounded<FieldError>) {
        for error in errors.kept {
            self.tell(node.line_of(error.path()), Some(subject.to_owned()), Severity::Error, error.into());
        }
        self.leave_out(Severity::Error, errors.left_out);
    }

    fn tell(&mut self, line: u32, subject: Option<String>, severity: Severity, issue: Issue) {
        // The first object with a name is just as good without the later ones.
        self.is_spoilt |= severity == Severity::Error && issue != Issue::Duplicate;
        let told = self.problems.iter().filter(|problem| problem.severity == severity).count();
        if told >= bounded::MOST {
            return self.leave_out(severity, 1);
        }
        self.problems.push(Problem {
            document: Some(self.document),
            line: Some(line).filter(|line| *line > 0),
            subject,
            severity,
            ..Problem::error(self.origin.place.as_str(), issue)
        });
    }

    fn leave_out(&mut self, severity: Severity, count: usize) {
        if count > 0 {
            *self.left_out.entry(severity).or_default() += count;
        }
    }
}

fn subject(kind: &str, meta: &ObjectMeta) -> String {
    let namespace = meta.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default");
    format!("{kind} {}/{}", shown_name(namespace), shown_name(meta.name.as_deref().unwrap_or_default()))
}

/// Names an object that has not been decoded, by the name in its document.
fn named(node: &Node<'_>, kind: &str) -> Option<String> {
    let name = node.get("metadata").and_then(|meta| meta.get("name")).and_then(Node::text)?;
    Some(format!("{kind} {}", shown_name(name))).filter(|_| !name.is_empty())
}

fn shown_name(name: &str) -> &str {
    beginning(name, LONGEST_NAME)
}

fn key(meta: &mut ObjectMeta) -> ObjectKey {
    // An empty name counts as none.
    meta.namespace = meta.namespace.take().filter(|namespace| !namespace.is_empty());
    let namespace = meta.namespace.get_or_insert_with(|| "default".to_owned()).clone();
    ObjectKey::new(namespace, meta.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
