//! What Slurm does to a job that has lost a node, from its own settings.

use std::process::{Command, Stdio};

/// Maximum time for an answer of Slurm, in seconds.
const PATIENCE: &str = "3";
/// Number of the allocation.
const ALLOCATION: &str = "SLURM_JOB_ID";

/// Sentences about Slurm's settings, without a full stop; none where there is no Slurm.
pub fn notes() -> Vec<String> {
    let Some(config) = scontrol(&["show", "config"]) else { return Vec::new() };
    let job = std::env::var(ALLOCATION).ok().and_then(|number| scontrol(&["show", "job", &number]));
    judge(&config, job.as_deref())
}

fn scontrol(words: &[&str]) -> Option<String> {
    let words = [&[PATIENCE, "scontrol"], words].concat();
    let output = Command::new("timeout").args(words).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// From the configuration and, in an allocation, its job.
fn judge(config: &str, job: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    let timeout = setting(config, "SlurmdTimeout").unwrap_or_default();
    let seconds = timeout.split(' ').next().unwrap_or_default();
    // Zero: Slurm never gives a node up.
    if !seconds.is_empty() && seconds != "0" {
        notes.push(format!(
            "it ends a job {seconds} s after the death of a node (SlurmdTimeout): request allocations with --no-kill"
        ));
    }
    let requeues = match job {
        Some(job) => job.split_whitespace().any(|word| word == "Requeue=1"),
        None => setting(config, "JobRequeue") == Some("1"),
    };
    if requeues {
        let which = if job.is_some() { "this job" } else { "jobs" };
        notes.push(format!("it starts {which} again from the beginning after that: request --no-requeue, too"));
    }
    notes
}

/// The value in a line `Name = value`.
fn setting<'a>(config: &'a str, name: &str) -> Option<&'a str> {
    let mut values = config.lines().filter_map(|line| line.trim().strip_prefix(name)?.trim_start().strip_prefix('='));
    values.next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str =
        "Configuration data as of now\nJobRequeue              = 1\nSlurmdTimeout           = 300 sec\n";

    #[test]
    fn what_ends_a_job_is_told_with_the_option_that_helps() {
        let notes = judge(CONFIG, None);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("300 s after") && notes[0].ends_with("--no-kill"), "{notes:?}");
        assert!(notes[1].contains("jobs again") && notes[1].contains("--no-requeue"), "{notes:?}");
    }

    #[test]
    fn an_allocation_that_is_not_requeued_has_no_note_of_it() {
        assert_eq!(judge(CONFIG, Some("JobId=7 JobName=x\n   Requeue=0 Restarts=0 BatchFlag=0\n")).len(), 1);
        assert!(judge(CONFIG, Some("   Requeue=1 Restarts=0\n"))[1].contains("this job"));
    }

    #[test]
    fn a_cluster_that_gives_no_node_up_has_no_notes() {
        assert!(judge("SlurmdTimeout = 0 sec\nJobRequeue = 0\n", None).is_empty());
        assert!(judge("", None).is_empty());
    }
}
