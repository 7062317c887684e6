//! The open descriptors of this process.

/// Lists all but the three standard streams, from `/proc`: call it before entering a container, whose own `/proc`
/// cannot be trusted.
pub(crate) fn beyond_streams() -> Vec<i32> {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|fd| *fd > 2).collect()
}

/// Closes them, whatever owns them: for a process that has just begun, or is about to become another program.
pub(crate) fn close_all(descriptors: impl IntoIterator<Item = i32>) {
    for fd in descriptors {
        let _ = nix::unistd::close(fd);
    }
}
