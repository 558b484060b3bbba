//! Jobs: what is started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::lab::HOSTS;
use crate::programs::survivor;

/// Prefix of the parameters.
const PREFIX: &str = "psensor_ringwatch_";
/// Suspicion timeout of the tests' jobs.
pub const TIMEOUT: Duration = Duration::from_millis(300);
/// How long their ranks may be stopped.
pub const STOP_TIMEOUT: Duration = Duration::from_millis(400);
/// What two processors with eight ranks, and whatever else runs there, may add to any time that is promised.
pub const SLACK: Duration = Duration::from_secs(1);

/// A job that can be started.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) ranks: u32,
    pub(crate) per_host: u32,
    pub(crate) hosts: Vec<&'static str>,
    launcher: Option<&'static str>,
    pub(crate) parameters: Vec<(String, String)>,
    fault_tolerant: bool,
    options: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    program: Option<Vec<String>>,
    diarist: Option<PathBuf>,
    arguments: Vec<String>,
    agent: String,
    pub(crate) limit: Duration,
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.strip_suffix("ms")?.parse().ok().map(Duration::from_millis)
}

impl Default for Job {
    fn default() -> Self {
        Self::new()
    }
}

impl Job {
    /// Eight survivors on four hosts, fault tolerant, with short times.
    #[must_use]
    pub fn new() -> Self {
        let job = Self {
            ranks: 8,
            per_host: 2,
            hosts: HOSTS.to_vec(),
            launcher: None,
            parameters: Vec::new(),
            fault_tolerant: true,
            options: Vec::new(),
            environment: Vec::new(),
            program: None,
            diarist: None,
            arguments: Vec::new(),
            agent: "/usr/local/bin/rw-ssh".into(),
            limit: Duration::from_secs(60),
        };
        job.parameter("period", "20ms").parameter("timeout", "300ms").parameter("stop_timeout", "400ms")
    }

    /// The times as the manual has them: period 100 ms, timeout 1 s, stopped 2 s.
    #[must_use]
    pub fn with_default_times(mut self) -> Self {
        self.parameters.clear();
        self
    }

    /// A parameter of ringwatch, on the command line; replaces an earlier value.
    #[must_use]
    pub fn parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.retain(|(known, _)| known != name);
        self.parameters.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Options of mpirun, before the program.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// A variable of mpirun's environment.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// So many ranks on each of these hosts; mpirun runs on the first.
    #[must_use]
    pub fn on(mut self, hosts: &[&'static str], per_host: u32) -> Self {
        self.hosts = hosts.to_vec();
        self.per_host = per_host;
        self.ranks = u32::try_from(hosts.len()).expect("a few hosts") * per_host;
        self
    }

    /// mpirun runs on this host, which has no ranks unless it is one of the job's.
    #[must_use]
    pub fn launched_from(mut self, host: &'static str) -> Self {
        self.launcher = Some(host);
        self
    }

    /// The host of mpirun.
    #[must_use]
    pub fn launcher_host(&self) -> &'static str {
        self.launcher.unwrap_or(self.hosts[0])
    }

    /// So many ranks, whatever the hosts have room for.
    #[must_use]
    pub fn ranks(mut self, ranks: u32) -> Self {
        self.ranks = ranks;
        self
    }

    /// Without `--with-ft`.
    #[must_use]
    pub fn without_fault_tolerance(mut self) -> Self {
        self.fault_tolerant = false;
        self.parameters.clear();
        self
    }

    /// Another program than the survivor.
    #[must_use]
    pub fn program(mut self, words: &[&str]) -> Self {
        self.program = Some(words.iter().map(|&word| word.to_owned()).collect());
        self
    }

    /// Another program than the survivor that keeps a diary and takes arguments.
    #[must_use]
    pub fn diarist(mut self, program: &Path) -> Self {
        self.diarist = Some(program.to_owned());
        self
    }

    /// Arguments for the survivor, see `programs/survivor.c`.
    #[must_use]
    pub fn arguments(mut self, words: &[&str]) -> Self {
        self.arguments.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    /// What the survivors are blocked in when the fault strikes these ranks.
    #[must_use]
    pub fn blocked_in(self, operation: &str, victims: &[u32]) -> Self {
        let list: Vec<String> = victims.iter().map(u32::to_string).collect();
        self.arguments(&["--op", operation, "--victims", &list.join(",")])
    }

    /// Another program than rw-ssh that starts PRRTE's daemons.
    #[must_use]
    pub fn agent(mut self, path: &Path) -> Self {
        self.agent = path.display().to_string();
        self
    }

    /// How long mpirun may take before that counts as a hang.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Its suspicion timeout.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        // Tests whose times are written otherwise do not ask.
        let timeout = self.value("timeout").unwrap_or("10");
        milliseconds(timeout).unwrap_or_else(|| self.period() * timeout.parse().unwrap_or(10))
    }

    /// Its heartbeat period.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.value("period").and_then(milliseconds).unwrap_or(Duration::from_millis(100))
    }

    /// Whether mpirun says who is lost.
    pub(crate) fn tells_of_losses(&self) -> bool {
        let is_off = self.value("enable") == Some("false") || self.value("log_level") == Some("error");
        self.fault_tolerant && !is_off
    }

    fn value(&self, parameter: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| known == parameter).map(|(_, text)| text.as_str())
    }

    /// Its hosts, prterun's first if that has ranks.
    #[must_use]
    pub fn hosts(&self) -> &[&'static str] {
        &self.hosts
    }

    /// The ranks on a host.
    #[must_use]
    pub fn ranks_on(&self, host: &str) -> Vec<u32> {
        let index = self.hosts.iter().position(|known| *known == host).expect("a host of the job");
        let first = u32::try_from(index).expect("a few hosts") * self.per_host;
        (first..first + self.per_host).collect()
    }

    /// The host of a rank.
    #[must_use]
    pub fn host_of(&self, rank: u32) -> &'static str {
        self.hosts[(rank / self.per_host) as usize]
    }

    pub(crate) fn command(&self, folder: &Path) -> Vec<String> {
        let mut words: Vec<String> = ["mpirun", "--prtemca", "plm_ssh_agent", &self.agent].map(Into::into).into();
        if self.fault_tolerant {
            words.extend(["--with-ft", "ulfm"].map(Into::into));
            let logged = [("log_level", "info".to_owned()), ("log", folder.join("%h.log").display().to_string())];
            let own = logged.iter().filter(|(name, _)| !self.parameters.iter().any(|(known, _)| known == name));
            let all = self.parameters.iter().map(|(name, value)| (name.as_str(), value.clone()));
            for (name, value) in all.chain(own.map(|(name, value)| (*name, value.clone()))) {
                words.extend(["--pmixmca".into(), format!("{PREFIX}{name}"), value]);
            }
        }
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("{host}:{}", self.per_host)).collect();
        words.extend(["-H".into(), hosts.join(","), "-n".into(), self.ranks.to_string()]);
        words.extend(self.options.iter().cloned());
        match &self.program {
            Some(program) => words.extend(program.iter().cloned()),
            None => {
                let diaries = folder.join("diaries").display().to_string();
                let program = self.diarist.as_deref().unwrap_or_else(|| survivor());
                words.extend([program.display().to_string(), "--events".into(), diaries]);
                words.extend(self.arguments.iter().cloned());
            }
        }
        words
    }
}
