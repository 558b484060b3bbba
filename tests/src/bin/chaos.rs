//! `chaos`: random jobs under random faults. Run it with `scripts/chaos`.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use system_tests::chaos::bundle::{self, Traces};
use system_tests::chaos::inject::{self, Struck};
use system_tests::chaos::plan::{Plan, Weather};
use system_tests::chaos::verdict::{self, Verdict};
use system_tests::chaos::weather::Storm;
use system_tests::clock::{now, wait_until};
use system_tests::diary::Diaries;
use system_tests::job::Running;
use system_tests::{Lab, TIMEOUT};

/// Random jobs under random faults, judged by what every user is promised.
#[derive(Parser)]
struct Arguments {
    /// Seed of the first job; the others have the numbers that follow
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ends after the job that brings the number of faults to this
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    faults: u32,
    /// Prints what is planned, and does nothing
    #[arg(long)]
    plan: bool,
    /// Where bundles of broken promises go
    #[arg(long, default_value = "target/chaos")]
    bundles: PathBuf,
}

/// Why a job says nothing: datagrams came later than its weather had it.
const TOO_SLOW: &str = "not judged, this machine kept the bad network itself from running for a third of the timeout";

/// How long a job may take to end after it was struck. prterun waits 10 s for a daemon that does not answer.
const END: Duration = Duration::from_secs(20);

/// What has been counted.
#[derive(Default)]
struct Counts {
    faults: BTreeMap<&'static str, u32>,
    families: BTreeMap<&'static str, u32>,
    limits: BTreeMap<&'static str, Vec<u64>>,
    broken: Vec<u64>,
    jobs: u32,
}

impl Counts {
    fn struck(&self) -> u32 {
        self.faults.values().sum()
    }

    fn add(&mut self, plan: &Plan, verdict: &Verdict) {
        self.jobs += 1;
        plan.faults.iter().for_each(|(_, fault)| *self.faults.entry(fault.kind()).or_default() += 1);
        plan.families.iter().for_each(|family| *self.families.entry(family).or_default() += 1);
        match verdict {
            Verdict::Held => {}
            Verdict::Limit(name) => self.limits.entry(name).or_default().push(plan.seed),
            Verdict::Broken(_) => self.broken.push(plan.seed),
        }
    }

    fn print(&self) {
        let list = |counts: &BTreeMap<&str, u32>| {
            let all: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            all.join(", ")
        };
        println!("{} jobs, {} faults: {}", self.jobs, self.struck(), list(&self.faults));
        println!("jobs with: {}", list(&self.families));
        println!("left out: loops of MPI_Iprobe (never interrupted)");
        for (name, seeds) in &self.limits {
            println!("excused, {} jobs: {name} (seeds {seeds:?})", seeds.len());
        }
        println!("broken promises: {} {:?}", self.broken.len(), self.broken);
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut counts = Counts::default();
    // What went wrong is in the bundle.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in arguments.seed.. {
        let plan = Plan::new(seed);
        println!("{plan}");
        let verdict = if arguments.plan { Verdict::Held } else { run(&plan, &arguments) };
        counts.add(&plan, &verdict);
        if counts.struck() >= arguments.faults {
            break;
        }
    }
    counts.print();
    if counts.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one job and says how it went.
fn run(plan: &Plan, arguments: &Arguments) -> Verdict {
    let (lab, began) = (Lab::open(), now());
    let events = lab.folder().join("%j.jsonl");
    let mut struck = Struck::default();
    let storm = (plan.weather != Weather::default()).then(|| Storm::begin(plan.weather, plan.seed));
    let job = inject::job(plan, &events.display().to_string());
    let mut running = Some(job.start(&lab));
    let folder = running.as_ref().map(|job| job.folder().to_owned()).unwrap_or_default();
    let result = catch_unwind(AssertUnwindSafe(|| {
        if let Some(job) = &mut running {
            drive(&lab, job, plan, &mut struck);
        }
        let outcome = running.take().map(Running::finish);
        outcome.map_or(Verdict::Held, |outcome| verdict::judge(plan, &struck, &outcome, &events))
    }));
    let verdict = match result {
        Ok(verdict) => verdict,
        Err(panic) => {
            let why = message(panic.as_ref());
            let stderr = std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
            let limit = verdict::limit(&Diaries::read(&folder.join("diaries")), &struck, &stderr);
            // Silence of the machine's own making is no promise broken: counted, and by its name.
            let late = storm.as_ref().map_or(Duration::ZERO, Storm::late);
            let limit = limit.or((late > TIMEOUT / 3).then_some(TOO_SLOW));
            let kept =
                bundle::write(&arguments.bundles, plan, &struck, &Traces { folder: &folder, events: &events }, &why);
            println!("  {}: {}", if limit.is_some() { "limit" } else { "BROKEN" }, why.lines().next().unwrap_or(""));
            println!(
                "  scripts/chaos --seed {} --faults 1 runs it again; everything about it is in {}",
                plan.seed,
                kept.display()
            );
            limit.map_or(Verdict::Broken(why), Verdict::Limit)
        }
    };
    drop(running);
    drop(storm);
    println!("  {:?} ({:.1} s)", kind(&verdict), (now() - began).as_secs_f64());
    verdict
}

/// Does what is planned. A death while processes are being spawned ends the job, and with it the plan.
fn drive<'lab>(lab: &'lab Lab, job: &mut Running<'lab>, plan: &Plan, struck: &mut Struck) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| inject::drive(lab, job, plan, struck))) else { return };
    let since = struck.log.last().map_or(Duration::ZERO, |(at, _)| now().saturating_sub(*at));
    let says_so = verdict::ended_while_spawning(plan, struck, &job.stderr());
    if since >= END || !says_so || !wait_until(END - since, || !job.runs()) {
        resume_unwind(panic);
    }
}

fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::Limit(name) => name,
        Verdict::Broken(_) => "broken",
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no reason given".into())
}
