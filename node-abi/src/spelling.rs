//! Detects misspelt names of parameters. No I/O.

use platform::spelling::{distance, nearest};

/// Maximum number of changed letters for a misspelling of another component's name.
const CLOSE: usize = 2;

/// Parameters of the components in the ranks.
pub const OF_RANKS: [&str; 13] = [
    "coll_ringwatch_error_scope",
    "coll_ringwatch_error_uniform",
    "hook_ringwatch_recovery",
    "hook_ringwatch_spares",
    "hook_ringwatch_spawn",
    "hook_ringwatch_log_limit",
    "hook_ringwatch_checkpoints",
    "hook_ringwatch_replicas",
    "hook_ringwatch_replicas_method",
    "hook_ringwatch_replicas_on_mismatch",
    "hook_ringwatch_replicas_memory",
    "hook_ringwatch_replicas_unverified",
    "hook_ringwatch_corrupt",
];

/// Options of `mpirun` that set a parameter, without hyphens.
const OPTIONS: [&str; 6] = ["mca", "gmca", "omca", "gomca", "pmixmca", "gpmixmca"];
/// Prefixes of variables that set a parameter.
pub const VARIABLES: [&str; 2] = ["PMIX_MCA_", "OMPI_MCA_"];

/// Frameworks with a component of ringwatch.
const FRAMEWORKS: [&str; 6] = ["psensor", "pnet", "hook", "coll", "osc", "io"];

/// The most similar known name, if this one is meant for ringwatch and unknown.
#[must_use]
pub fn meant<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    if known.contains(&name) {
        return None;
    }
    let nearest = nearest(name, known.iter().copied())?;
    let is_ours = FRAMEWORKS.iter().any(|framework| {
        let rest = name.strip_prefix(framework).and_then(|rest| rest.strip_prefix("_ringwatch"));
        rest.is_some_and(|rest| rest.starts_with('_'))
    });
    (is_ours || distance(name, nearest) <= CLOSE).then_some(nearest)
}

/// Names of the parameters that a command line sets, by `--mca` and its kin or by `-x`, or a file for `--tune`, which
/// has the same words.
pub fn names_in_words<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut is_name = false;
    for word in words {
        let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        let variable = VARIABLES.iter().find_map(|prefix| word.strip_prefix(prefix));
        if is_name {
            names.push(word);
        } else if let Some(variable) = variable {
            names.push(variable.split('=').next().unwrap_or_default());
        }
        is_name = option.is_some_and(|option| OPTIONS.contains(&option));
    }
    names
}

/// Names of the parameters that a parameter file sets. A line with `#` is a comment.
pub fn names_in_file(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_meant() {
        let known = ["psensor_ringwatch_period", "psensor_ringwatch_log", "coll_ringwatch_error_scope"];
        assert_eq!(meant("psensor_ringwatch_perod", &known), Some("psensor_ringwatch_period"));
        assert_eq!(meant("psensor_ringwach_period", &known), Some("psensor_ringwatch_period"));
        assert_eq!(meant("psensor_ringwatch_logfile", &known), Some("psensor_ringwatch_log"));
        assert_eq!(meant("coll_ringwatch_error_scop", &known), Some("coll_ringwatch_error_scope"));
        assert!(meant("coll_ringwatch_x", &known).is_some());
        for other in ["psensor_ringwatch_period", "psensor_heartbeat_period", "coll_han_priority", "psensor", ""] {
            assert_eq!(meant(other, &known), None, "{other}");
        }
    }

    #[test]
    fn names_are_found_where_they_are_set() {
        let words = "mpirun --mca a 1 -x OMPI_MCA_b=2 -x PMIX_MCA_c --pmixmca d mca -n 2 ./app e";
        assert_eq!(names_in_words(words.split(' ')), ["a", "b", "c", "d"]);
        assert_eq!(names_in_words(["--mca"].into_iter()), [""; 0]);
        let lines = "# f = 1\n g = 2\nh=\n\nno name\n";
        assert_eq!(names_in_file(lines).collect::<Vec<_>>(), ["g", "h"]);
    }
}
