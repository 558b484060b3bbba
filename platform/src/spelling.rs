//! How alike two names are: for whoever has misspelt one. No I/O.

/// The edit distance: number of changed, added or removed letters.
#[must_use]
pub fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut before = std::mem::replace(&mut row[0], index + 1);
        for (place, known) in other.iter().enumerate() {
            let changed = before + usize::from(letter != *known);
            before = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

/// The name that is most like this one; none if there are none.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|one| distance(name, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_letters() {
        assert_eq!(
            [("", "abc"), ("abc", ""), ("abc", "abc"), ("abc", "axbd")].map(|(a, b)| distance(a, b)),
            [3, 3, 0, 2]
        );
    }

    #[test]
    fn the_nearest_of_several_names_is_found() {
        assert_eq!(nearest("rw_intervall", ["rw_passes", "rw_interval"]), Some("rw_interval"));
        assert_eq!(nearest("a", []), None);
    }
}
