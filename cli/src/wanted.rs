//! Which jobs a command line means.

/// The option `--job`.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Wanted {
    /// Only this job: its PMIx namespace, or the number of Slurm's job in which it runs
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
}

impl Wanted {
    /// Whether a job with this namespace, in this job of Slurm, is meant.
    pub fn is(&self, nspace: &str, slurm_job: Option<&str>) -> bool {
        self.job.as_deref().is_none_or(|job| job == nspace || Some(job) == slurm_job)
    }

    /// For sentences: whose daemons, or which job.
    pub fn of_whom(&self) -> String {
        self.job.as_ref().map_or_else(|| "of yours".into(), |job| format!("of job {job}"))
    }

    /// For sentences: the job whose history is shown.
    pub fn last(&self) -> String {
        self.job.as_ref().map_or_else(|| "your last job".into(), |job| format!("job {job}"))
    }
}
