//! `cargo xtask sweep`: takes down what a killed test run could not.

pub(crate) fn run() -> anyhow::Result<()> {
    for folder in rubelet_testbed::sweep_abandoned()? {
        eprintln!("took down a runtime nobody owned any more: {}", folder.display());
    }
    Ok(())
}
