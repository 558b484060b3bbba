//! `chaos`: random jobs under random faults. Run it with `scripts/chaos`.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use system_tests::Lab;
use system_tests::chaos::bundle::{self, Traces};
use system_tests::chaos::inject::{self, Around};
use system_tests::chaos::limits::{self, End, LEFT_OUT, MACHINE};
use system_tests::chaos::plan::{self, Plan, Weather};
use system_tests::chaos::pulse::Pulse;
use system_tests::chaos::spawned;
use system_tests::chaos::struck::{Carried, Struck, own};
use system_tests::chaos::verdict::{self, Verdict};
use system_tests::chaos::weather::Storm;
use system_tests::clock::{now, wait_until};
use system_tests::diary::Diaries;
use system_tests::running::Running;

/// Random jobs under random faults, judged by what every user is promised.
#[derive(Parser)]
struct Arguments {
    /// Seed of the first job; the others have the numbers that follow
    #[arg(long, default_value_t = plan::SEED)]
    seed: u64,
    /// Ends after the job that brings the number of faults that were carried out to this
    #[arg(long, default_value_t = plan::FAULTS, value_parser = clap::value_parser!(u32).range(1..))]
    faults: u32,
    /// Ends after so many jobs at the latest
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Gives every communicator uniform collectives
    #[arg(long)]
    uniform: bool,
    /// Prints what is planned, and does nothing
    #[arg(long)]
    plan: bool,
    /// Where bundles of broken promises go
    #[arg(long, default_value = "target/chaos")]
    bundles: PathBuf,
}

/// How long a job may take to end after it was struck. prterun waits 10 s for a daemon that does not answer.
const END: Duration = Duration::from_secs(20);

/// Of what is known about a job that broke a promise so many lines come at the end.
const LINES_OF_BROKEN: usize = 100;

/// Of so many jobs at least half must do without an excuse, or the run shows too little.
const MANY: u32 = 100;

/// What has been counted.
#[derive(Default)]
struct Counts {
    planned: BTreeMap<&'static str, u32>,
    carried: BTreeMap<&'static str, u32>,
    moments: BTreeMap<&'static str, u32>,
    /// Faults that were carried out while another one lasted.
    overlaps: usize,
    families: BTreeMap<&'static str, u32>,
    limits: BTreeMap<&'static str, Vec<u64>>,
    /// What excused jobs that were then run once more, and judged by that.
    once_more: BTreeMap<&'static str, Vec<u64>>,
    /// Jobs that were excused by any of them, at first or in the end.
    excused: u32,
    /// Jobs whose relay was late.
    late: Vec<u64>,
    /// Jobs in which this machine was late at all.
    untimed: u32,
    /// Why each broken one is.
    broken: Vec<(u64, String)>,
    jobs: u32,
}

impl Counts {
    /// What brings the run to its end: faults that were carried out, or are planned where nothing else is asked for.
    fn struck(&self, plan_only: bool) -> u32 {
        if plan_only { self.planned.values().sum() } else { self.carried.values().sum() }
    }

    fn plan(&mut self, plan: &Plan) {
        self.jobs += 1;
        plan.faults.iter().for_each(|(_, fault)| *self.planned.entry(fault.kind()).or_default() += 1);
        plan.families.iter().for_each(|family| *self.families.entry(family).or_default() += 1);
    }

    fn add(&mut self, plan: &Plan, ran: &Ran) {
        ran.carried.iter().for_each(|fault| *self.carried.entry(fault.kind).or_default() += 1);
        ran.carried.iter().for_each(|fault| *self.moments.entry(fault.moment).or_default() += 1);
        self.overlaps += ran.carried.iter().filter(|fault| fault.overlaps).count();
        if ran.late {
            self.late.push(plan.seed);
        }
        self.untimed += u32::from(ran.untimed);
        self.excused += u32::from(ran.first.is_some() || matches!(ran.verdict, Verdict::Excused(_)));
        ran.first.iter().for_each(|name| self.once_more.entry(name).or_default().push(plan.seed));
        match &ran.verdict {
            Verdict::Held => {}
            Verdict::Excused(names) => {
                names.iter().for_each(|name| self.limits.entry(name).or_default().push(plan.seed));
            }
            Verdict::Broken(why) => self.broken.push((plan.seed, why.clone())),
        }
    }

    /// Whether it was seldom enough that a job needed an excuse.
    fn shows_enough(&self) -> bool {
        self.jobs < MANY || self.excused <= self.jobs / 2
    }

    fn print(&self, plan_only: bool) {
        let list = |counts: &BTreeMap<&str, u32>| {
            let all: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
            all.join(", ")
        };
        let planned: u32 = self.planned.values().sum();
        println!("{} jobs, {planned} faults planned: {}", self.jobs, list(&self.planned));
        println!("jobs with: {}", list(&self.families));
        if plan_only {
            return;
        }
        println!("{} faults carried out: {}", self.struck(false), list(&self.carried));
        println!("they struck {}; while another one lasted: {}", list(&self.moments), self.overlaps);
        println!("limits (docs/limits.md) that are kept away from: {}", LEFT_OUT.join("; "));
        println!("never struck by itself: rank 0 before MPI_Finalize, because it lets the job end; a spawned rank");
        println!("never struck again: a host that was cut off, has died, or whose prted was struck");
        println!("never stopped and continued: the whole job");
        println!("jobs in which the relay of the bad network was late: {} {:?}", self.late.len(), self.late);
        println!(
            "jobs in which it was not asked how soon the dead were declared, since this machine was late: {}",
            self.untimed
        );
        for (name, seeds) in &self.once_more {
            println!("excused by this machine at first, and run once more, {} jobs: {name} {seeds:?}", seeds.len());
        }
        for (name, seeds) in &self.limits {
            let whose = if MACHINE.contains(name) { "by this machine" } else { "by a limit in docs/limits.md" };
            println!("excused {whose}, {} jobs: {name} {seeds:?}", seeds.len());
        }
        // The bundle may be out of reach for who reads this.
        if let Some((seed, why)) = self.broken.first() {
            println!("what is known about {seed}:");
            why.lines().take(LINES_OF_BROKEN).for_each(|line| println!("  {line}"));
        }
        for (seed, why) in &self.broken {
            println!("broken: {seed}: {}", why.lines().next().unwrap_or_default());
        }
        if !self.shows_enough() {
            println!("too many jobs were excused, {} of {}: this run shows too little", self.excused, self.jobs);
        }
        println!("broken promises: {}", self.broken.len());
    }
}

/// One job that was run.
struct Ran {
    verdict: Verdict,
    /// The faults that were carried out.
    carried: Vec<Carried>,
    /// Whether the relay was late.
    late: bool,
    /// Whether that, or any ordinary process, was.
    untimed: bool,
    /// What of this machine excused it when it ran for the first time.
    first: Option<&'static str>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut counts = Counts::default();
    // What went wrong is in the bundle.
    std::panic::set_hook(Box::new(|_| {}));
    for seed in arguments.seed.. {
        let plan = Plan::new(seed);
        println!("{plan}");
        counts.plan(&plan);
        if !arguments.plan {
            counts.add(&plan, &run_fairly(&plan, &arguments));
        }
        let last = arguments.jobs.is_some_and(|jobs| counts.jobs >= jobs);
        if last || counts.struck(arguments.plan) >= arguments.faults {
            break;
        }
    }
    counts.print(arguments.plan);
    if counts.broken.is_empty() && counts.shows_enough() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one job, and once more where this machine was in the way: twice at the same place it is not the machine.
fn run_fairly(plan: &Plan, arguments: &Arguments) -> Ran {
    let is_machine = |ran: &Ran| match &ran.verdict {
        Verdict::Excused(names) => MACHINE.into_iter().find(|name| names.contains(name)),
        _ => None,
    };
    let first = run(plan, arguments);
    let Some(name) = is_machine(&first) else { return first };
    println!("  once more, since this was the machine's");
    let mut second = Ran { first: Some(name), ..run(plan, arguments) };
    if is_machine(&second) == Some(name) {
        println!("  BROKEN: twice: {name}");
        second.verdict = Verdict::Broken(name.into());
    }
    second
}

/// Runs one job and says how it went.
fn run(plan: &Plan, arguments: &Arguments) -> Ran {
    let (lab, began) = (Lab::open(), now());
    let events = lab.folder().join("%j.jsonl");
    let mut struck = Struck::default();
    let storm = (plan.weather != Weather::default()).then(|| Storm::begin(plan.weather, plan.seed));
    let pulse = Pulse::begin();
    let around = Around { events: &events, storm: storm.as_ref(), pulse: &pulse };
    let job = inject::job(plan, &events.display().to_string());
    let uniform = ["--mca", "coll_ringwatch_error_uniform", "coll"];
    let job = if arguments.uniform { job.options(&uniform) } else { job };
    let mut running = Some(job.start(&lab));
    let folder = running.as_ref().map(|job| job.folder().to_owned()).unwrap_or_default();
    let traces = || {
        let relay = storm.as_ref().map(Storm::late).unwrap_or_default();
        let late = late("relay", &relay).chain(late("ordinary process", &pulse.late())).collect();
        Traces { folder: &folder, events: &events, late }
    };
    let result = catch_unwind(AssertUnwindSafe(|| {
        if let Some(job) = &mut running {
            drive(&lab, job, plan, &mut struck, &around);
        }
        let outcome = running.take().map(Running::finish);
        outcome.map(|outcome| verdict::judge(plan, &struck, &outcome, &traces())).unwrap_or_default()
    }));
    let verdict = match result {
        Ok(limits) => match &struck.limits | &limits {
            limits if limits.is_empty() => Verdict::Held,
            limits => Verdict::Excused(limits),
        },
        Err(panic) => {
            let why = message(panic.as_ref());
            let kept = bundle::write(&arguments.bundles, plan, &struck, &traces(), &why);
            println!("  BROKEN: {}", why.lines().next().unwrap_or(""));
            let longest = pulse.late().into_iter().map(|(_, length)| length).max().unwrap_or_default();
            println!("  the machine kept an ordinary process from running for up to {} ms", longest.as_millis());
            println!(
                "  scripts/chaos --seed {} --jobs 1{} runs it again; everything about it is in {}",
                plan.seed,
                if arguments.uniform { " --uniform" } else { "" },
                kept.display()
            );
            Verdict::Broken(why)
        }
    };
    let mut carried = struck.carried;
    carried.extend(own(plan, &Diaries::read(&folder.join("diaries"))));
    let untimed = !traces().late.is_empty();
    let late = storm.as_ref().is_some_and(|storm| !storm.late().is_empty());
    drop(running);
    drop(storm);
    println!("  {}, {} faults carried out ({:.1} s)", word(&verdict), carried.len(), (now() - began).as_secs_f64());
    Ran { verdict, carried, late, untimed, first: None }
}

/// Does what is planned. Some limits end the job, and with it the plan.
fn drive<'lab>(lab: &'lab Lab, job: &mut Running<'lab>, plan: &Plan, struck: &mut Struck, around: &Around<'_>) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| inject::drive(lab, job, plan, struck, around))) else { return };
    let since = struck.log.last().map_or(Duration::ZERO, |(at, _)| now().saturating_sub(*at));
    let (diaries, stderr, spawned) = (job.diaries(), job.stderr(), spawned::all(job.folder()));
    // How exactly the judge says.
    let end = End { diaries: &diaries, stderr: &stderr, spawned: &spawned, was_late: true };
    let says_so = limits::ended(plan, struck, &end).is_some();
    if since >= END || !says_so || !wait_until(END - since, || !job.runs()) {
        resume_unwind(panic);
    }
}

fn late(who: &str, moments: &[(Duration, Duration)]) -> impl Iterator<Item = (Duration, String)> {
    moments.iter().map(move |(at, length)| (*at, format!("kept the {who} from running for {} ms", length.as_millis())))
}

fn word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Held => "held".into(),
        Verdict::Excused(names) => format!("excused: {}", names.iter().copied().collect::<Vec<_>>().join("; ")),
        Verdict::Broken(_) => "broken".into(),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no reason given".into())
}
