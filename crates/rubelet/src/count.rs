//! Counts of things, in words.

/// `1 pod`, `2 pods`.
pub(crate) fn count(number: u64, of: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {of}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|number| count(number, "layer")), ["0 layers", "1 layer", "2 layers"]);
    }
}
