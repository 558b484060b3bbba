//! Slurm on the virtual hosts: a `slurmctld` on h1 and a `slurmd` on each host.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::clock::wait_until;
use crate::lab::{HOSTS, Lab};

/// How long Slurm may take to have all nodes.
const START: Duration = Duration::from_secs(30);

/// A cluster without authentication and without control groups, for jobs of root. `SlurmdTimeout` decides when Slurm
/// gives up a dead node: here after ten seconds.
const CONFIGURATION: &str = "ClusterName=lab
SlurmctldHost=h1
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=10
KillWait=2
";

/// The cluster. Its daemons end with this value.
pub struct Slurm {
    folder: PathBuf,
    daemons: Vec<Child>,
    jobs: u32,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            // One on a host that was killed has ended.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Slurm {
    /// Starts the daemons, and waits until all nodes are there.
    ///
    /// # Panics
    /// If they do not come.
    #[must_use]
    pub fn start(lab: &Lab) -> Self {
        let folder = lab.folder();
        let path = folder.display();
        let nodes = HOSTS.map(|host| format!("NodeName={host} NodeAddr=10.77.0.{} CPUs=4\n", &host[1..])).concat();
        let files = format!(
            "SlurmctldPidFile={path}/slurmctld.pid\nStateSaveLocation={path}\nSlurmctldLogFile={path}/slurmctld.log\n\
             SlurmdSpoolDir={path}/%n\nSlurmdPidFile={path}/%n.pid\nSlurmdLogFile={path}/%n.slurmd.log\n"
        );
        let partition = "PartitionName=all Nodes=ALL Default=YES State=UP\n";
        fs::write(folder.join("cgroup.conf"), "CgroupPlugin=disabled\n").expect("the folder can be written");
        fs::write(folder.join("slurm.conf"), [CONFIGURATION, &files, &nodes, partition].concat())
            .expect("the folder can be written");
        let mut slurm = Self { folder, daemons: Vec::new(), jobs: 0 };
        slurm.spawn("h1", &["slurmctld", "-D"]);
        HOSTS.iter().for_each(|host| slurm.spawn(host, &["slurmd", "-D", "-N", host]));
        let are_there = || {
            let output = slurm.command("h1", &["sinfo", "-h", "-t", "idle", "-o", "%D"]).output();
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == HOSTS.len().to_string())
        };
        assert!(wait_until(START, are_there), "Slurm does not have all nodes: see {}", slurm.folder.display());
        slurm
    }

    fn command(&self, host: &str, words: &[&str]) -> Command {
        let mut command = Command::new("rw-on");
        command.arg(host).args(words).env("SLURM_CONF", self.folder.join("slurm.conf")).stdin(Stdio::null());
        command
    }

    fn spawn(&mut self, host: &str, words: &[&str]) {
        let output = File::create(self.folder.join(format!("{host}.{}.out", words[0]))).expect("it can be written");
        let copy = output.try_clone().expect("a descriptor");
        let child = self.command(host, words).stdout(output).stderr(copy).spawn();
        self.daemons.push(child.expect("rw-on runs"));
    }

    /// Runs a command of Slurm's on h1, and returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command("h1", words).output().expect("rw-on runs");
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&text));
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Runs a command in an allocation of these nodes, from h1.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn allocate(&mut self, options: &[&str], command: &[&str]) -> Allocation {
        let path = self.next_output();
        let words = [&["salloc", "-Q"], options, command].concat();
        let output = File::create(&path).expect("it can be written");
        self.begin(&words, output, path)
    }

    /// Runs a shell command as a batch job on these nodes, the first of which runs it.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn submit(&mut self, options: &[&str], command: &str) -> Allocation {
        let path = self.next_output();
        let text = path.display().to_string();
        let words = [&["sbatch", "-Q", "--wait", "--output", &text, "--wrap", command], options].concat();
        let messages = File::create(path.with_extension("sbatch")).expect("it can be written");
        self.begin(&words, messages, path)
    }

    fn next_output(&mut self) -> PathBuf {
        self.jobs += 1;
        self.folder.join(format!("job.{}", self.jobs))
    }

    /// Starts a command that ends with its job, whose output is in the file `path`.
    fn begin(&self, words: &[&str], output: File, path: PathBuf) -> Allocation {
        let words = [&["timeout", "-k", "1", "-s", "KILL", "60"], words].concat();
        let copy = output.try_clone().expect("a descriptor");
        let child = self.command("h1", &words).stdout(output).stderr(copy).spawn().expect("rw-on runs");
        Allocation { child, output: path }
    }
}

/// A command that runs in an allocation.
pub struct Allocation {
    child: Child,
    output: PathBuf,
}

impl Allocation {
    /// What it has printed.
    #[must_use]
    pub fn text(&self) -> String {
        read(&self.output)
    }

    /// Waits until it has printed this.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait_for(&self, words: &str, limit: Duration) {
        let is_there = wait_until(limit, || self.text().contains(words));
        assert!(is_there, "'{words}' is printed within {limit:?}: {}", self.text());
    }

    /// Waits for its end; returns its status and what it has printed.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn finish(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("a child");
        (status, read(&self.output))
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
