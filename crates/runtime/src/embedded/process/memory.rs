//! A process that has set itself up and will now sleep gives back the pages of code it no longer needs.

/// Drops this process's hold on the read-only, unmodified pages of its binaries.
///
/// They stay in the page cache and come back by themselves when touched, so this changes nothing but the bill.
#[expect(unsafe_code, reason = "madvise has no safe wrapper")]
pub(crate) fn give_back_code_pages() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (start, len) in code_ranges(&maps) {
        // SAFETY: the range is mapped from a file, and not writable, so every page of it that is dropped is read back
        // from the file on its next use with the same content. Ranges with relocated (private, written) pages are
        // excluded by `code_ranges`.
        unsafe {
            let _ =
                rustix::mm::madvise(start as *mut std::ffi::c_void, len, rustix::mm::Advice::LinuxDontNeed);
        }
    }
}

/// Executable mappings of files. Read-only data is left alone: relocations may have been written into it.
fn code_ranges(maps: &str) -> Vec<(usize, usize)> {
    maps.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let (range, flags) = (words.next()?, words.next()?);
            let path = words.nth(3)?;
            if flags != "r-xp" || !path.starts_with('/') {
                return None;
            }
            let (start, end) = range.split_once('-')?;
            let start = usize::from_str_radix(start, 16).ok()?;
            let end = usize::from_str_radix(end, 16).ok()?;
            Some((start, end.checked_sub(start)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_files_is_given_back() {
        let maps = "55d0-55d8 r--p 00000000 08:01 12 /usr/bin/x\n\
                    1000-3000 r-xp 00008000 08:01 12 /usr/bin/x\n\
                    4000-5000 rw-p 00010000 08:01 12 /usr/bin/x\n\
                    7ff0-7ff8 r-xp 00000000 00:00 0 [vdso]\n\
                    8000-9000 r-xp 00000000 00:00 0\n";
        assert_eq!(code_ranges(maps), [(0x1000, 0x2000)]);
    }

    #[test]
    fn code_runs_on_after_it_was_given_back() {
        give_back_code_pages();
        assert_eq!((1..=4).product::<u32>(), 24);
    }
}
