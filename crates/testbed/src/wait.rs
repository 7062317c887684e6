//! The only place that polls, since a process or a socket of another program does not notify anybody when it is ready.

use std::time::{Duration, Instant};

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Calls `look` until it returns something, and returns that; `None` when the time limit is reached.
#[expect(clippy::disallowed_methods, reason = "real processes move in real time: nothing here can be paused")]
pub fn until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if begin.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

#[cfg(test)]
mod tests {
    use super::until;
    use std::time::Duration;

    #[test]
    fn looks_at_least_once_and_stops_at_the_first_sight() {
        assert_eq!(until(Duration::ZERO, || Some("there")), Some("there"));
        assert_eq!(until(Duration::ZERO, || None::<()>), None);
        let mut countdown = 3;
        let seen = until(Duration::from_secs(60), || {
            countdown -= 1;
            (countdown == 0).then_some("there")
        });
        assert_eq!(seen, Some("there"));
    }
}
