//! Message logging under programs of Debian's packages, as they are: a rank is killed from outside, and the output is
//! that of an undisturbed run, times apart.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use system_tests::replaced::{logged_job, processes_of, some_moment, some_number};
use system_tests::{Job, in_lab, process};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: u32 = 4;
/// Kills of `--full`.
const KILLS: u32 = 20;

/// A Lennard-Jones melt (LAMMPS manual, `examples/melt`), smaller.
const MELT: &str = "units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 8 0 8 0 8
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 50
run 500
";

/// The lines that HPCC reads: one small problem on two by two processes.
const HPCC: &str = "HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out
8            device out
1            # of problems sizes (N)
200          Ns
1            # of NBs
40           NBs
0            PMAP process mapping
1            # of process grids (P x Q)
2            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs
1            # of recursive stopping criterium
4            NBMINs
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs
1            # of broadcast
1            BCASTs
1            # of lookahead depth
1            DEPTHs
2            SWAP
64           swapping threshold
0            L1
0            U
1            Equilibration
8            memory alignment in double
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
";

/// A program, and what of its output does not depend on time.
struct Package {
    name: &'static str,
    words: &'static [&'static str],
    input: (&'static str, &'static str),
    /// Ranks that may be killed: from this one on.
    first_victim: u32,
    result: fn(&Path, &str) -> String,
}

/// Lines of LAMMPS without times.
fn of_lammps(_: &Path, stdout: &str) -> String {
    const TIMES: [&str; 9] =
        ["CPU", "Loop time", "Performance", "Pair ", "Neigh ", "Comm ", "Output ", "Modify ", "Other "];
    let lines = stdout.lines().filter(|line| TIMES.iter().all(|word| !line.contains(word)));
    lines.filter(|line| !line.contains("wall time")).collect::<Vec<_>>().join("\n")
}

/// The words of the file of HPCC. Its checks have told what they think of results; all other numbers follow from times.
fn of_hpcc(folder: &Path, _: &str) -> String {
    let text = fs::read_to_string(folder.join("hpccoutf.txt")).unwrap_or_default();
    let plain = |word: &str| match word.split_once('=') {
        Some((name, _)) if !["Errors", "Success", "_N"].iter().any(|kept| name.ends_with(kept)) => format!("{name}=N"),
        None if word.parse::<f64>().is_ok() => "N".to_owned(),
        _ => word.to_owned(),
    };
    let lines = text.lines().filter(|line| !line.starts_with("Current time"));
    lines.map(|line| line.split_whitespace().map(plain).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
}

const LAMMPS: Package = Package {
    name: "lmp",
    words: &["lmp", "-in", "in.melt", "-log", "none"],
    input: ("in.melt", MELT),
    first_victim: 0,
    result: of_lammps,
};
/// Its rank 0 appends to a file, where a replacement would append everything again.
const BENCHMARK: Package =
    Package { name: "hpcc", words: &["hpcc"], input: ("hpccinf.txt", HPCC), first_victim: 1, result: of_hpcc };

impl Package {
    fn job(&self, folder: &Path, spares: u32) -> Job {
        fs::write(folder.join(self.input.0), self.input.1).expect("the folder of the test can be written");
        let _ = fs::remove_file(folder.join("hpccoutf.txt"));
        let options = ["--wdir", &*folder.display().to_string(), "--mca", "hook_ringwatch_log_limit", "4096"];
        logged_job(RANKS, spares).options(&options).limit(LIMIT).program(self.words)
    }

    /// Kills a rank in each of so many runs.
    fn survives(&self, kills: u32) {
        in_lab(|lab| {
            let (folder, began) = (lab.folder(), Instant::now());
            let undisturbed = self.job(&folder, 0).run(lab);
            let (expected, duration) = ((self.result)(&folder, &undisturbed.stdout), began.elapsed());
            undisturbed
                .require(undisturbed.status == 0 && expected.len() > 1000, "the run without a death has a result");
            let mut died = 0;
            for _ in 0..kills {
                let job = self.job(&folder, 1).start(lab);
                let processes = processes_of(&job, self.name, RANKS, LIMIT);
                let victim = self.first_victim + some_number(RANKS - self.first_victim);
                // Nothing is waited for: the moment is what is tested.
                std::thread::sleep(some_moment(duration / 2));
                process::signal(processes[victim as usize], libc::SIGKILL);
                let outcome = job.finish();
                let what = format!("{} without rank {victim}", self.name);
                outcome.require(outcome.status == 0, &format!("{what}: mpirun's exit status is 0"));
                let result = (self.result)(&folder, &outcome.stdout);
                outcome.require(result == expected, &format!("{what}: the result is {expected}, not {result}"));
                died += outcome.losses().len();
                outcome.left_nothing();
            }
            assert!(died > 0, "somebody is killed before the end");
        });
    }
}

#[test]
fn lammps_gives_the_same_when_a_rank_is_replaced() {
    LAMMPS.survives(2);
}

#[test]
fn hpcc_gives_the_same_when_a_rank_is_replaced() {
    BENCHMARK.survives(2);
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn lammps_gives_the_same_whichever_rank_is_replaced() {
    LAMMPS.survives(KILLS);
}

#[test]
#[ignore = "minutes: a part of scripts/test --full"]
fn hpcc_gives_the_same_whichever_rank_is_replaced() {
    BENCHMARK.survives(KILLS);
}
