//! Which release of Open MPI this is.

/// The release in Open MPI's version string, e.g. (5, 0, 7).
#[must_use]
pub fn of_text(text: &str) -> Option<(u32, u32, u32)> {
    let number = text.strip_prefix("Open MPI v")?.split([',', ' ', '-']).next()?;
    let digits = number.trim_end_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split('.').map(|part| part.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_the_string_that_it_shows() {
        assert_eq!(of_text("Open MPI v5.0.7, package: Debian OpenMPI, ident: 5.0.7"), Some((5, 0, 7)));
        assert_eq!(of_text("Open MPI v5.1.0a1"), Some((5, 1, 0)));
        assert_eq!(of_text("MPICH Version: 4.2"), None);
    }
}
