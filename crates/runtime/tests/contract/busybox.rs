//! The images of the test bed, put straight into the embedded runtime's store.

use std::path::Path;

use rubelet_runtime::image::{ImageStore, ImportOptions, Progress};
use rubelet_testbed::{BUSYBOX, image_archive};

/// Imports them; the name of the one with a shell. `None`, said aloud, where there is no busybox to make them of.
pub(crate) fn import(store: &Path) -> Option<String> {
    let archive = match image_archive() {
        Ok(archive) => archive,
        Err(error) => {
            eprintln!("SKIPPED: no image can be made here: {error}");
            return None;
        }
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), archive).expect("a file");
    let store = ImageStore::open(store).expect("the store");
    store.import(file.path(), &ImportOptions::default(), &Progress::none()).expect("images");
    Some(BUSYBOX.to_owned())
}
