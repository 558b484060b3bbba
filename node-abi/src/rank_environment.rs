//! Determines the rank as which a process was started, from its environment.

use platform::pin::Pin;

/// Whether a process may be that rank of that job: it was started as such, with this
/// [`Environment`](platform::pin::Environment). A process that hides or has overwritten its environment is accepted if
/// it descends from the runtime daemon that starts the ranks. A process that has ended has no environment any more, and
/// counts as gone.
#[must_use]
pub fn is_rank(pin: &Pin, environment: &[u8], nspace: &str, rank: u32, runtime: i32) -> bool {
    if !names_a_rank(environment) {
        return pin.has_ended() || pin.fate().is_some() || pin.descends_from(runtime);
    }
    names_rank(environment, nspace, rank)
}

/// Whether an `environ` names any rank.
#[must_use]
pub fn names_a_rank(environ: &[u8]) -> bool {
    environ.split(|byte| *byte == 0).any(|one| one.starts_with(b"PMIX_NAMESPACE=") || one.starts_with(b"PMIX_RANK="))
}

/// The namespace and the rank that an `environ` names.
#[must_use]
pub fn rank_in(environ: &[u8]) -> Option<(String, u32)> {
    let value = |name: &[u8]| environ.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(name));
    let nspace = std::str::from_utf8(value(b"PMIX_NAMESPACE=")?).ok()?.to_owned();
    Some((nspace, std::str::from_utf8(value(b"PMIX_RANK=")?).ok()?.parse().ok()?))
}

/// Whether an `environ` names this rank.
#[must_use]
pub fn names_rank(environ: &[u8], nspace: &str, rank: u32) -> bool {
    let (nspace, rank) = (format!("PMIX_NAMESPACE={nspace}"), format!("PMIX_RANK={rank}"));
    let has = |wanted: &str| environ.split(|byte| *byte == 0).any(|one| one == wanted.as_bytes());
    has(&nspace) && has(&rank)
}

#[cfg(test)]
mod tests {
    use platform::testing::wait_until;

    use super::*;
    use crate::testing::sleeper_of;

    #[test]
    fn an_environment_says_which_rank_it_is_of() {
        assert_eq!(rank_in(b"A=1\0PMIX_RANK=12\0PMIX_NAMESPACE=job@1\0"), Some(("job@1".into(), 12)));
        for other in
            [&b"PMIX_RANK=12\0"[..], b"PMIX_NAMESPACE=job@1\0PMIX_RANK=x\0", b"", b"PMIX_NAMESPACE=\xff\0PMIX_RANK=1"]
        {
            assert_eq!(rank_in(other), None);
        }
    }

    fn is(pin: &Pin, nspace: &str, rank: u32, runtime: i32) -> bool {
        is_rank(pin, &pin.environment().unwrap().read(), nspace, rank, runtime)
    }

    /// A process without environment, whose parent is a shell.
    fn without_environment() -> (std::process::Child, Pin) {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "env -i sleep 60 & echo $!; wait"]).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.as_mut().unwrap()), &mut line).unwrap();
        let pid = line.trim().parse().unwrap();
        wait_until(|| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x0060\0"));
        (shell, Pin::take(pid).unwrap())
    }

    #[test]
    fn who_hides_its_environment_is_a_rank_if_the_runtime_has_started_it_even_through_a_wrapper() {
        let (mut shell, pin) = without_environment();
        assert!(is(&pin, "job@1", 3, std::process::id() as i32));
        assert!(is(&pin, "job@1", 3, shell.id() as i32));
        assert!(!is(&pin, "job@1", 3, i32::MAX) && !is(&pin, "job@1", 3, pin.pid()));
        pin.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_rank_that_has_ended_is_one_although_it_has_no_environment_any_more() {
        let mut child = sleeper_of("job@1", 3);
        let pin = Pin::take(child.id() as i32).unwrap();
        assert!(is(&pin, "job@1", 3, i32::MAX) && !is(&pin, "job@1", 4, i32::MAX));
        child.kill().unwrap();
        wait_until(|| pin.has_ended());
        assert!(is(&pin, "job@1", 3, i32::MAX));
        child.wait().unwrap();
    }
}
