//! `cargo xtask sweep`: removes what a killed test run left behind.

pub(crate) fn run() -> anyhow::Result<()> {
    for folder in rubelet_testbed::sweep_abandoned()? {
        eprintln!("took down a runtime nobody owned any more: {}", folder.display());
    }
    Ok(())
}
