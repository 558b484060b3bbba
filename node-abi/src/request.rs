//! Parses requests in `mpirun`'s command line and environment. No I/O.

/// The option of PRRTE that makes ranks wait for a debugger.
const STOPPED: &str = "stop-on-exec";
/// Its shortest prefix that differs from all other directives.
const SHORT: &str = "stop-on";

/// Whether a command line (words that end with a zero byte) makes prterun start the ranks stopped: `--stop-on-exec`, or
/// `--runtime-options` with that. PRRTE accepts directives in any case, and abbreviated.
#[must_use]
pub fn starts_ranks_stopped(command_line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(command_line).to_lowercase();
    let mut words = line.split('\0').peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix('-').map(|rest| rest.trim_start_matches('-')) else { continue };
        let (option, value) = match option.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (option, words.peek().copied()),
        };
        let is_asked = ["runtime-options", "rtos"].contains(&option) && value.is_some_and(|list| list.contains(SHORT));
        if option == STOPPED || is_asked {
            return true;
        }
    }
    false
}

/// Whether a value means yes to Open MPI.
#[must_use]
pub fn is_yes(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on" | "enabled")
}

/// The number of a job of Slurm, as it may be a part of a file's name.
#[must_use]
pub fn slurm_job(value: &str) -> Option<String> {
    let value = value.trim();
    let is_number = (1..=20).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| value.to_owned())
}

/// The first remote shell in PRRTE's list, with its options.
#[must_use]
pub fn first_shell(agents: &str) -> &str {
    let first = agents.split(':').next().unwrap_or_default().trim();
    if first.is_empty() { "ssh" } else { first }
}

/// Whether a framework's list of components permits this one: it names the permitted ones, or after `^` the excluded
/// ones.
#[must_use]
pub fn leaves_in(list: &str, component: &str) -> bool {
    let names = |list: &str| list.split(',').any(|name| name == component);
    match list.strip_prefix('^') {
        Some(excluded) => !names(excluded),
        None => list.is_empty() || names(list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_start_stopped_where_an_option_says_so() {
        for asked in [
            "mpirun --stop-on-exec ./app",
            "mpirun -stop-on-exec",
            "mpirun --runtime-options recoverable,stop-on-exec ./app",
            "mpirun --rtos=Stop-On-Ex",
        ] {
            assert!(starts_ranks_stopped(asked.replace(' ', "\0").as_bytes()), "{asked}");
            assert!(starts_ranks_stopped((asked.replace(' ', "\0") + "\0").as_bytes()), "{asked}");
        }
        for other in [
            "",
            "mpirun --stop-in-init ./app",
            "mpirun rtos stop-on-exec",
            "mpirun stop-on-exec",
            "mpirun --rtos recoverable ./stop-on-exec",
        ] {
            assert!(!starts_ranks_stopped(other.replace(' ', "\0").as_bytes()), "{other}");
        }
    }

    #[test]
    fn words_of_the_environment_mean_what_they_mean_to_open_mpi() {
        assert!([" 1", "TRUE", "on\n"].iter().all(|value| is_yes(value)));
        assert!(!["", "0", "2", "true!"].iter().any(|value| is_yes(value)));
        assert_eq!(["", " : rsh", "ssh -p 22 : rsh"].map(first_shell), ["ssh", "ssh", "ssh -p 22"]);
        let lists = ["", "ringwatch", "comm_method,ringwatch", "^comm_method", "comm_method", "^ringwatch", "^"];
        let expected = [true, true, true, true, false, false, true];
        assert_eq!(lists.map(|list| leaves_in(list, "ringwatch")), expected);
    }
}
