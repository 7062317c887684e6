//! Keeps the memory of a sleeping process as small as possible.

mod touched;

use std::io::{BufRead as _, BufReader};

pub use touched::map_only_what_is_touched;

/// Returns memory that is needed only while there is work to do: pages of the program that were last used long ago, and
/// freed memory that the allocator keeps for later. Blocks for a millisecond or two.
pub fn give_back() {
    give_back_file_pages();
    give_back_freed();
}

/// Makes all threads allocate from one heap. By default each has its own, and each heap keeps its holes; with one, a
/// burst of pods leaves less behind. Must be called before any other thread is started.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "mallopt has no safe wrapper")]
pub fn share_one_heap() {
    // SAFETY: mallopt(3) takes two numbers and sets a limit; a heap that already exists stays as it is.
    unsafe {
        let _ = nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1);
    }
}

/// Does nothing: other allocators have no such limit.
#[cfg(not(target_env = "gnu"))]
pub fn share_one_heap() {}

/// Returns freed memory: the allocator keeps what is freed in the middle of its heaps, and each thread has a heap.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "malloc_trim has no safe wrapper")]
fn give_back_freed() {
    // SAFETY: malloc_trim(3) takes a number, may be called by any thread, and touches only memory that is free.
    unsafe {
        let _ = nix::libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
fn give_back_freed() {}

/// Unmaps the unmodified pages of this process's binaries: code, and data that is read only at the start.
///
/// They stay in the page cache and are mapped again when they are touched, so only the accounting changes.
#[expect(unsafe_code, reason = "madvise has no safe wrapper")]
pub(crate) fn give_back_file_pages() {
    let Ok(file) = std::fs::File::open("/proc/self/smaps") else { return };
    // Read line by line: the whole text would take the very memory that this is to save.
    let lines = BufReader::with_capacity(4096, file).lines();
    for (start, len) in clean_ranges(lines.map_while(Result::ok)) {
        // SAFETY: the range is mapped from a file, is not writable, and according to the kernel none of its pages has
        // been written to since it was mapped; so every page that is dropped is read back from the file on its next
        // use, with the same content. Binaries are mapped when the program is loaded and never after: no thread puts
        // anything else there in the meantime.
        unsafe {
            let _ =
                rustix::mm::madvise(start as *mut std::ffi::c_void, len, rustix::mm::Advice::LinuxDontNeed);
        }
    }
}

/// Returns the mappings of files that cannot be written to and never were. A mapping with relocations has anonymous
/// pages, which would be lost.
fn clean_ranges(smaps: impl Iterator<Item = String>) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut candidate = None;
    for line in smaps {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("Anonymous:") => {
                let range = candidate.take();
                if words.next() == Some("0") {
                    ranges.extend(range);
                }
            }
            Some(first) if !first.ends_with(':') => candidate = read_only_file(&line),
            _ => {}
        }
    }
    ranges
}

/// Parses `start-end flags offset device inode path`, if it is a mapping of a file that is only read or executed.
fn read_only_file(mapping: &str) -> Option<(usize, usize)> {
    let mut words = mapping.split_whitespace();
    let (range, flags) = (words.next()?, words.next()?);
    let path = words.nth(3)?;
    if !matches!(flags, "r--p" | "r-xp") || !path.starts_with('/') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    Some((start, end.checked_sub(start)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(head: &str, anonymous: u64) -> String {
        format!("{head}\nSize: 8 kB\nRss: 8 kB\nAnonymous: {anonymous} kB\nVmFlags: rd mr\n")
    }

    #[test]
    fn only_what_was_never_written_is_given_back() {
        let smaps = [
            mapping("1000-3000 r--p 00000000 08:01 12 /usr/bin/x", 0),
            mapping("4000-5000 r-xp 00008000 08:01 12 /usr/bin/x", 0),
            mapping("6000-7000 r--p 00010000 08:01 12 /usr/bin/x", 4),
            mapping("8000-9000 rw-p 00012000 08:01 12 /usr/bin/x", 0),
            mapping("a000-b000 r--p 00000000 00:00 0", 0),
            mapping("c000-d000 r-xp 00000000 00:00 0 [vdso]", 0),
        ]
        .concat();
        let ranges = clean_ranges(smaps.lines().map(str::to_owned));
        assert_eq!(ranges, [(0x1000, 0x2000), (0x4000, 0x1000)]);
    }

    #[test]
    fn a_program_has_something_to_give_back() {
        let own = std::fs::read_to_string("/proc/self/smaps").unwrap();
        assert!(!clean_ranges(own.lines().map(str::to_owned)).is_empty());
    }
}
