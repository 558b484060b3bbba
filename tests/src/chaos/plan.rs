//! What happens to one job: a function of the seed.

use std::fmt;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{RngCore, SeedableRng};

/// Families of operations, see `programs/families.h`.
const FAMILIES: [&str; 11] =
    ["p2p", "any", "rooted", "all", "vector", "nonblocking", "persistent", "neighbour", "compute", "window", "file"];
/// The one in which a death ends the job, as docs/limits.md says.
const SPAWN: &str = "spawn";
/// A seed whose plan and those of the following, until they have this many faults, leave out no kind of fault, no
/// moment and no family.
pub const SEED: u64 = 37;
/// See [`SEED`].
pub const FAULTS: u32 = 50;
/// How a rank strikes itself.
const HOW: [&str; 3] = ["kill", "segv", "stop"];
/// Where on the way through `MPI_Init`.
const PLACES: [&str; 3] = ["before", "during", "halfway"];

/// One thing that is done to a job. Hosts are numbered from 0, which is prterun's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A rank gets this signal, `SIGKILL` or `SIGSEGV`.
    Kill {
        /// Who.
        rank: u32,
        /// The signal.
        signal: i32,
    },
    /// A rank is stopped, for good if `ms` is `None`.
    Stop {
        /// Who.
        rank: u32,
        /// For how many milliseconds.
        ms: Option<u64>,
    },
    /// A node dies.
    Node {
        /// Which.
        host: u32,
    },
    /// Nodes lose their link to all others, or to all but each other, for good if `ms` is `None`.
    Cut {
        /// Which.
        hosts: Vec<u32>,
        /// Whether they still reach each other.
        together: bool,
        /// For how many milliseconds.
        ms: Option<u64>,
    },
    /// prterun's node loses its link to all others, which still reach each other, for good if `ms` is `None`.
    Alone {
        /// For how many milliseconds.
        ms: Option<u64>,
    },
    /// `ringwatchd` of a node gets this signal, `SIGKILL` or `SIGSTOP`.
    Daemon {
        /// Where.
        host: u32,
        /// The signal.
        signal: i32,
        /// After how many milliseconds it is continued, if it is.
        ms: Option<u64>,
    },
    /// `prted` of a node gets this signal, and with it the plugin.
    Runtime {
        /// Where.
        host: u32,
        /// The signal.
        signal: i32,
        /// After how many milliseconds it is continued, if it is.
        ms: Option<u64>,
    },
    /// A rank strikes itself before or in `MPI_Init`.
    Init {
        /// Who.
        rank: u32,
        /// `before`, `during` or `halfway`.
        place: &'static str,
        /// `kill`, `segv` or `stop`.
        how: &'static str,
    },
    /// A rank strikes itself at the entry of `MPI_Finalize` or in it.
    Finalize {
        /// Who.
        rank: u32,
        /// `entry` or `during`.
        place: &'static str,
        /// `kill`, `segv` or `stop`.
        how: &'static str,
    },
    /// prterun is killed.
    Launcher,
}

impl Fault {
    /// Name of its kind, for the counts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "rank killed",
            Self::Stop { ms: None, .. } => "rank stopped",
            Self::Stop { .. } => "rank stopped and continued",
            Self::Node { .. } => "node dead",
            Self::Cut { ms: None, .. } => "link cut",
            Self::Cut { .. } => "link cut and healed",
            Self::Alone { ms: None } => "mpirun's host cut off",
            Self::Alone { .. } => "mpirun's host cut off and healed",
            Self::Daemon { ms: None, .. } => "ringwatchd lost",
            Self::Daemon { .. } => "ringwatchd stopped and continued",
            Self::Runtime { ms: None, .. } => "prted lost",
            Self::Runtime { .. } => "prted stopped and continued",
            Self::Init { .. } => "rank lost in MPI_Init",
            Self::Finalize { .. } => "rank lost in MPI_Finalize",
            Self::Launcher => "prterun killed",
        }
    }
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// So many milliseconds after everybody had dealt with the one before.
    Calm(u64),
    /// As soon as a survivor is told of the one before: into the recovery.
    Recovery,
    /// At the same moment as the one before.
    Same,
    /// So many milliseconds after the first rank has entered `MPI_Init`.
    Init(u64),
    /// The same with `MPI_Finalize`.
    Finalize(u64),
    /// When the rank that strikes itself has come to it.
    Own,
}

impl When {
    /// Its name, for the counts.
    #[must_use]
    pub fn moment(self) -> &'static str {
        match self {
            Self::Calm(_) => "in calm",
            Self::Recovery => "into a recovery",
            Self::Same => "with the one before",
            Self::Init(_) => "into MPI_Init",
            Self::Finalize(_) => "into MPI_Finalize",
            Self::Own => "by the rank itself",
        }
    }
}

/// What the network does to datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// Of 1000 so many get lost.
    pub loss: u32,
    /// Of 1000 so many come twice.
    pub duplication: u32,
    /// Each takes up to so many milliseconds longer, and may overtake others.
    pub delay: u32,
}

/// One job and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where it comes from.
    pub seed: u64,
    /// Number of hosts, 4 to 12.
    pub hosts: u32,
    /// Ranks on each.
    pub per_host: u32,
    /// What the ranks do in turn.
    pub families: Vec<&'static str>,
    /// On what network.
    pub weather: Weather,
    /// Who keeps all others waiting in `MPI_Init` or `MPI_Finalize`, where faults strike there, if anybody does.
    pub late: Option<u32>,
    /// What is done to it, in this order. Only the last may be one that ends the job.
    pub faults: Vec<(When, Fault)>,
}

/// Numbers of one seed.
struct Dice(Pcg64Mcg);

impl Dice {
    /// A number below `end`, which is above zero.
    fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.0.next_u64() % u64::from(end)).expect("less than end")
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(u32::try_from(of.len()).expect("a short list")) as usize]
    }
}

/// Who can still be struck.
struct Targets {
    per_host: u32,
    /// Hosts but prterun's, of which nothing has happened to the whole.
    hosts: Vec<u32>,
    /// Ranks that live. Rank 0 is spared: it lets the job end.
    ranks: Vec<u32>,
}

impl Targets {
    fn take_rank(&mut self, dice: &mut Dice) -> u32 {
        let rank = dice.any(&self.ranks);
        self.ranks.retain(|one| *one != rank);
        rank
    }

    /// Somebody has to be left to tell.
    fn leave_somebody(&self) -> bool {
        self.hosts.len() >= 2 && self.ranks.len() >= 2
    }

    fn has_ranks(&self, host: u32) -> bool {
        self.ranks.iter().any(|rank| rank / self.per_host == host)
    }

    fn take_host(&mut self, dice: &mut Dice) -> u32 {
        let host = dice.any(&self.hosts);
        self.hosts.retain(|one| *one != host);
        self.ranks.retain(|rank| rank / self.per_host != host);
        host
    }
}

impl Plan {
    /// The plan of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice(Pcg64Mcg::seed_from_u64(seed));
        // Large jobs take long to start on a small machine, so they are fewer.
        let hosts = 4 + dice.below(9).min(dice.below(9));
        let per_host = if hosts > 6 { 1 } else { 1 + dice.below(2) };
        let mut families: Vec<_> = (0..3).map(|_| dice.any(&FAMILIES)).collect();
        if dice.below(6) == 0 {
            families.push(SPAWN);
        }
        families.sort_unstable();
        families.dedup();
        let weather = match dice.below(3) {
            0 => Weather::default(),
            _ => Weather { loss: dice.below(60), duplication: dice.below(100), delay: dice.below(6) },
        };
        let mut targets = Targets { per_host, hosts: (1..hosts).collect(), ranks: (1..hosts * per_host).collect() };
        let mut plan = Self { seed, hosts, per_host, families, weather, late: None, faults: Vec::new() };
        match dice.below(8) {
            0 => {
                let (rank, place, how) = (dice.any(&targets.ranks), dice.any(&PLACES), dice.any(&HOW));
                plan.faults.push((When::Own, Fault::Init { rank, place, how }));
                return plan;
            }
            1 if dice.below(6) == 0 => {
                plan.faults.push((When::Init(u64::from(dice.below(300))), Fault::Launcher));
                return plan;
            }
            1 => {
                plan.strike_into(&mut dice, &mut targets, When::Init, 300);
                return plan;
            }
            _ => {}
        }
        for _ in 0..4 + dice.below(5) {
            if !targets.leave_somebody() {
                break;
            }
            let when = match dice.below(4) {
                0 if !plan.faults.is_empty() => When::Same,
                1 if !plan.faults.is_empty() => When::Recovery,
                _ => When::Calm(u64::from(dice.below(200))),
            };
            plan.faults.push((when, any_fault(&mut dice, &mut targets)));
        }
        match dice.below(8) {
            0 => plan.faults.push((When::Calm(0), Fault::Launcher)),
            1 => {
                let rank = dice.any(&[&[0], &targets.ranks[..]].concat());
                let (place, how) = (dice.any(&["entry", "during"]), dice.any(&HOW));
                plan.faults.push((When::Own, Fault::Finalize { rank, place, how }));
            }
            2..=4 if targets.leave_somebody() => plan.strike_into(&mut dice, &mut targets, When::Finalize, 40),
            _ => {}
        }
        plan
    }

    /// One or two faults into the call in which the job begins or ends. Where nobody keeps the others waiting there it
    /// takes about so many milliseconds.
    fn strike_into(&mut self, dice: &mut Dice, targets: &mut Targets, call: fn(u64) -> When, ms: u32) {
        self.late = (dice.below(2) == 0).then(|| dice.any(&targets.ranks));
        let within = if self.late.is_some() { 1000 } else { ms };
        self.faults.push((call(u64::from(dice.below(within))), any_fault(dice, targets)));
        if dice.below(3) == 0 && targets.leave_somebody() {
            self.faults.push((When::Same, any_fault(dice, targets)));
        }
    }

    /// Whether something strikes into `MPI_Init`.
    #[must_use]
    pub fn starts_badly(&self) -> bool {
        self.faults.iter().any(|(when, fault)| matches!(when, When::Init(_)) || matches!(fault, Fault::Init { .. }))
    }

    /// Whether something strikes into `MPI_Finalize`.
    #[must_use]
    pub fn ends_badly(&self) -> bool {
        self.faults
            .iter()
            .any(|(when, fault)| matches!(when, When::Finalize(_)) || matches!(fault, Fault::Finalize { .. }))
    }

    /// The rank that is to strike itself, if there is one.
    #[must_use]
    pub fn own(&self) -> Option<u32> {
        match self.faults.last() {
            Some((_, Fault::Init { rank, .. } | Fault::Finalize { rank, .. })) => Some(*rank),
            _ => None,
        }
    }

    /// Whether it spawns processes.
    #[must_use]
    pub fn spawns(&self) -> bool {
        self.families.contains(&SPAWN)
    }

    /// How many ranks it begins with; those that are spawned are numbered on.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.hosts * self.per_host
    }
}

fn any_fault(dice: &mut Dice, targets: &mut Targets) -> Fault {
    // The daemons' timeout is 300 ms: well below, around, and never.
    let cut = |dice: &mut Dice| match dice.below(3) {
        0 => Some(u64::from(20 + dice.below(100))),
        1 => Some(u64::from(250 + dice.below(300))),
        _ => None,
    };
    // That of stopped ranks is 400 ms: well below, closely below, above, and never.
    let stop = |dice: &mut Dice| match dice.below(5) {
        0 => Some(u64::from(20 + dice.below(200))),
        1 | 2 => Some(u64::from(300 + dice.below(50))),
        3 => Some(u64::from(380 + dice.below(200))),
        _ => None,
    };
    match dice.below(10) {
        0..=2 => Fault::Kill { rank: targets.take_rank(dice), signal: dice.any(&[libc::SIGKILL, libc::SIGSEGV]) },
        3 => Fault::Node { host: targets.take_host(dice) },
        4 => match (targets.take_host(dice), dice.any(&[libc::SIGKILL, libc::SIGSTOP])) {
            (host, libc::SIGKILL) => Fault::Runtime { host, signal: libc::SIGKILL, ms: None },
            (host, signal) => Fault::Runtime { host, signal, ms: stop(dice) },
        },
        5 | 6 => {
            // It may strike the same one again, and prterun's own. Where no rank is left nobody needs another.
            let hosts: Vec<u32> = targets.hosts.iter().copied().filter(|host| targets.has_ranks(*host)).collect();
            let host = dice.any(&[&[0], &hosts[..]].concat());
            // It is replaced after 150 ms: well below, around, and never.
            let ms = match dice.below(3) {
                0 => Some(u64::from(20 + dice.below(100))),
                1 => Some(u64::from(120 + dice.below(100))),
                _ => None,
            };
            match dice.any(&[libc::SIGKILL, libc::SIGSTOP]) {
                libc::SIGKILL => Fault::Daemon { host, signal: libc::SIGKILL, ms: None },
                signal => Fault::Daemon { host, signal, ms },
            }
        }
        7 => Fault::Stop { rank: targets.take_rank(dice), ms: stop(dice) },
        8 if dice.below(3) == 0 => {
            while !targets.hosts.is_empty() {
                targets.take_host(dice);
            }
            Fault::Alone { ms: cut(dice) }
        }
        _ => {
            let mut hosts = vec![targets.take_host(dice)];
            if targets.hosts.len() > 2 && dice.below(3) == 0 {
                hosts.push(targets.take_host(dice));
            }
            Fault::Cut { hosts, together: dice.below(2) == 0, ms: cut(dice) }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, hosts, per_host, families, weather, late, faults } = self;
        let Weather { loss, duplication, delay } = weather;
        write!(out, "seed {seed}: {hosts} hosts, {per_host} ranks on each, {}", families.join(" "))?;
        write!(out, "; of 1000 datagrams {loss} lost, {duplication} doubled, up to {delay} ms late")?;
        late.map_or(Ok(()), |rank| write!(out, "; all wait for rank {rank}"))?;
        faults.iter().try_for_each(|(when, fault)| write!(out, "\n  {when:?} {fault:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const KINDS: usize = 15;
    const MOMENTS: usize = 6;

    /// Kinds and moments of the faults, and families of operations, of the plans from a seed on, until there are enough
    /// faults.
    fn variety(seed: u64) -> [BTreeSet<&'static str>; 3] {
        let (mut kinds, mut moments, mut families, mut faults) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), 0);
        for plan in (seed..).map(Plan::new) {
            faults += plan.faults.len();
            kinds.extend(plan.faults.iter().map(|(_, fault)| fault.kind()));
            moments.extend(plan.faults.iter().map(|(when, _)| when.moment()));
            families.extend(plan.families);
            if faults >= FAULTS as usize {
                break;
            }
        }
        [kinds, moments, families]
    }

    #[test]
    fn a_short_run_leaves_out_no_kind_of_fault_no_moment_and_no_family() {
        let variety = variety(SEED);
        let counts = variety.each_ref().map(BTreeSet::len);
        assert_eq!(counts, [KINDS, MOMENTS, FAMILIES.len() + 1], "{variety:?}");
    }

    #[test]
    fn a_seed_is_always_the_same_plan() {
        assert_eq!(Plan::new(7), Plan::new(7));
        let plans: BTreeSet<String> = (0..100).map(|seed| Plan::new(seed).to_string()).collect();
        assert_eq!(plans.len(), 100);
    }

    #[test]
    fn every_kind_of_fault_comes_and_somebody_is_always_left() {
        let (mut kinds, mut moments) = (BTreeSet::new(), BTreeSet::new());
        for plan in (0..500).map(Plan::new) {
            assert!((4..=12).contains(&plan.hosts) && !plan.faults.is_empty() && !plan.families.is_empty());
            let mut lost = BTreeSet::new();
            for (at, (when, fault)) in plan.faults.iter().enumerate() {
                kinds.insert(fault.kind());
                moments.insert(when.moment());
                let follows = matches!(when, When::Same | When::Recovery);
                assert!(at > 0 || !follows, "nothing came before the first: {plan}");
                let ends = matches!(fault, Fault::Launcher | Fault::Init { .. } | Fault::Finalize { .. });
                assert!(!ends || at + 1 == plan.faults.len(), "{plan}");
                let spared = match fault {
                    Fault::Kill { rank, .. } | Fault::Stop { rank, .. } => *rank != 0,
                    Fault::Node { host } | Fault::Runtime { host, .. } => *host != 0,
                    Fault::Cut { hosts, .. } => !hosts.contains(&0),
                    _ => true,
                };
                assert!(spared, "rank 0 lives to let the job end: {plan}");
                match fault {
                    Fault::Node { host } | Fault::Runtime { host, .. } => assert!(lost.insert(*host), "{plan}"),
                    Fault::Daemon { host, .. } => assert!(!lost.contains(host), "nothing is left to strike: {plan}"),
                    _ => {}
                }
            }
        }
        assert_eq!((kinds.len(), moments.len()), (KINDS, MOMENTS), "{kinds:?}, {moments:?}");
    }
}
