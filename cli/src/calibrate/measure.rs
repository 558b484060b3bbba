//! Measuring: a fault-tolerant job whose `ringwatchd` processes write down how regularly heartbeats came.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use node_abi::parameters::show;
use rdma_heartbeat::history::{self, Event, Measure, Record};
use rdma_heartbeat::report::distribution::Distribution;

/// The period of the heartbeats while it is measured: short, so that no stall hides between two.
pub const PERIOD: Duration = Duration::from_millis(2);
/// So long that no node is suspected during the measurement.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long the last lines of the history may take after the end of mpirun.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the progress is drawn.
const TICK: Duration = Duration::from_millis(100);

/// What was measured under one load.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Which load.
    pub name: String,
    /// The period of its heartbeats; the longest if there are several.
    pub period: Duration,
    /// How many nodes have told what they measured, and how many have not.
    pub nodes: usize,
    /// The nodes that have not.
    pub silent: Vec<u32>,
    /// Times between two heartbeats.
    pub silences: Distribution,
    /// How late `ringwatchd` was.
    pub lateness: Distribution,
    /// Heartbeats that were heard.
    pub heard: u64,
    /// Heartbeats that were not.
    pub lost: u64,
}

impl Phase {
    /// What the histories of jobs tell.
    pub fn of(name: &str, records: &[Record]) -> Self {
        let mut phase = Self { name: name.into(), ..Self::default() };
        let (mut started, mut told) = (BTreeSet::new(), BTreeSet::new());
        for Record { job, node, event, .. } in records {
            match event {
                Event::Started { .. } => drop(started.insert((job, *node))),
                Event::Measured { what, counts } => {
                    let distribution = match what {
                        Measure::Silence => &mut phase.silences,
                        Measure::Lateness => &mut phase.lateness,
                    };
                    counts.iter().for_each(|(micros, count)| distribution.add_many(*micros, *count));
                }
                Event::Farewell { period_us, heard, lost } => {
                    told.insert((job, *node));
                    phase.period = phase.period.max(Duration::from_micros(*period_us));
                    phase.heard = phase.heard.saturating_add(*heard);
                    phase.lost = phase.lost.saturating_add(*lost);
                }
                _ => {}
            }
        }
        phase.nodes = told.len();
        phase.silent = started.difference(&told).map(|(_, node)| *node).collect();
        phase
    }

    /// Whether every node that has begun has told.
    fn is_complete(&self) -> bool {
        self.nodes > 0 && self.silent.is_empty()
    }
}

/// Measures for so long with so many busy threads on each node; `None`: as many as `load` thinks right.
///
/// # Errors
/// A sentence if that was not possible.
pub fn run(name: &str, options: &[String], time: Duration, threads: Option<u32>) -> Result<Phase, String> {
    let folder = Folder::new()?;
    let file = folder.0.join("history.jsonl");
    let complaints = folder.0.join("stderr");
    let mut child = start(options, time, threads, &file, &complaints)?;
    let ended = wait(name, &mut child, time);
    let told = || fs::read_to_string(&complaints).unwrap_or_default();
    match ended {
        Ok(status) if status.success() => {}
        Ok(status) => {
            eprint!("{}", told());
            return Err(format!("mpirun could not run the measurement ({status}); its own words are above"));
        }
        Err(error) => return Err(format!("mpirun cannot be waited for: {error}")),
    }
    let begun = Instant::now();
    loop {
        let phase = Phase::of(name, &history::read(&fs::read_to_string(&file).unwrap_or_default()).0);
        let late = begun.elapsed() > PATIENCE;
        if phase.is_complete() || (late && phase.nodes > 0) {
            return Ok(phase);
        }
        if late {
            eprint!("{}", told());
            return Err(
                "no ringwatchd has told what it measured: is ringwatch installed beside this Open MPI, and not \
                        switched off (psensor_ringwatch_enable)?"
                    .into(),
            );
        }
        std::thread::sleep(TICK);
    }
}

/// Runs `ringwatch load` once on each node.
fn start(
    options: &[String],
    time: Duration,
    threads: Option<u32>,
    file: &Path,
    complaints: &Path,
) -> Result<Child, String> {
    let own = std::env::current_exe().map_err(|error| format!("the path of ringwatch cannot be found: {error}"))?;
    let complaints =
        fs::File::create(complaints).map_err(|error| format!("{} cannot be written: {error}", complaints.display()))?;
    let mut command = Command::new("mpirun");
    // The load uses no MPI: without the component nobody waits for its `MPI_Init`, and the ring is at full speed at once.
    command.env("OMPI_MCA_hook", "^ringwatch");
    command.args(["--with-ft", "ulfm", "--map-by", "ppr:1:node", "--bind-to", "none"]);
    let file = file.display().to_string();
    let (period, timeout) = (show(PERIOD), show(TIMEOUT));
    let parameters = [("period", &period), ("timeout", &timeout), ("events", &file)];
    for (name, value) in parameters {
        command.args(["--pmixmca", &format!("psensor_ringwatch_{name}"), value]);
    }
    command.args(options).arg(own).args(["load", "--time", &format!("{}us", time.as_micros())]);
    if let Some(threads) = threads {
        command.args(["--threads", &threads.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints);
    command.spawn().map_err(|error| format!("mpirun cannot be started ({error}): is it in PATH?"))
}

/// Shows how the time passes until the job has ended.
fn wait(name: &str, child: &mut Child, time: Duration) -> std::io::Result<std::process::ExitStatus> {
    let total = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let style = ProgressStyle::with_template("measuring {msg} [{bar:40}] {percent} %, {eta} left");
    let bar = ProgressBar::new(total).with_style(style.expect("a constant template")).with_message(name.to_owned());
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            bar.finish_and_clear();
            return Ok(status);
        }
        bar.set_position(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX).min(total));
        std::thread::sleep(TICK);
    }
}

/// A folder of this process alone, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("ringwatch-calibrate-{}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| format!("the folder {} cannot be made: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(node: u32, event: Event) -> Record {
        Record { job: "job@1".into(), node, host: "h".into(), event, ..Record::default() }
    }

    #[test]
    fn what_nodes_tell_is_added_up_and_who_does_not_is_named() {
        let measured = |counts: &[(u64, u64)]| Event::Measured { what: Measure::Silence, counts: counts.to_vec() };
        let records: Vec<_> = (0..3)
            .map(|node| record(node, Event::Started { pid: 1, incarnation: 0 }))
            .chain([
                record(0, measured(&[(15, 2), (2000, 7)])),
                record(0, measured(&[(3000, 1)])),
                record(0, Event::Farewell { period_us: 2000, heard: 10, lost: 0 }),
                record(2, measured(&[(2000, 4)])),
                record(2, Event::Farewell { period_us: 2000, heard: 4, lost: 1 }),
            ])
            .collect();
        let phase = Phase::of("idle", &records);
        assert_eq!((phase.nodes, &phase.silent[..], phase.period), (2, &[1][..], 2 * Duration::from_millis(1)));
        assert_eq!((phase.silences.count(), phase.heard, phase.lost), (14, 14, 1));
        assert_eq!(phase.lateness.count(), 0);
        assert!(!phase.is_complete() && Phase::of("idle", &records[3..]).is_complete());
    }
}
