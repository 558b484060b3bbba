//! Programs of Debian's packages, as they are, with small inputs, and what of their output does not depend on time.

use std::fs;
use std::path::Path;

use crate::job::Job;

/// Ranks of each.
pub const RANKS: u32 = 4;

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
#[derive(Clone, Copy)]
pub struct Package {
    /// The name of its processes.
    pub name: &'static str,
    /// Its command line.
    pub words: &'static [&'static str],
    /// Its input: a file and what is in it.
    pub input: (&'static str, &'static str),
    /// Ranks that may be killed under message logging: from this one on.
    pub first_victim: u32,
    /// What a run has found, by its folder and its output.
    pub result: fn(&Path, &str) -> String,
}

/// Lines of LAMMPS without times.
fn of_lammps(_: &Path, stdout: &str) -> String {
    const TIMES: [&str; 9] =
        ["CPU", "Loop time", "Performance", "Pair ", "Neigh ", "Comm ", "Output ", "Modify ", "Other "];
    let lines = stdout.lines().filter(|line| TIMES.iter().all(|word| !line.contains(word)));
    lines.filter(|line| !line.contains("wall time")).collect::<Vec<_>>().join("\n")
}

/// The words of the file of HPCC. Its checks have told what they think of results; all other numbers follow from times. It has
/// a line of processor times only where these are not 0.
fn of_hpcc(folder: &Path, _: &str) -> String {
    let text = fs::read_to_string(folder.join("hpccoutf.txt")).unwrap_or_default();
    let plain = |word: &str| match word.split_once('=') {
        Some((name, _)) if !["Errors", "Success", "_N"].iter().any(|kept| name.ends_with(kept)) => format!("{name}=N"),
        None if word.parse::<f64>().is_ok() => "N".to_owned(),
        _ => word.to_owned(),
    };
    let of_times =
        |line: &str| line.starts_with("Current time") || (line.starts_with("CPU ") && line.contains("PASSED"));
    let lines = text.lines().filter(|line| !of_times(line));
    lines.map(|line| line.split_whitespace().map(plain).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("\n")
}

/// LAMMPS.
pub const LAMMPS: Package = Package {
    name: "lmp",
    words: &["lmp", "-in", "in.melt", "-log", "none"],
    input: ("in.melt", MELT),
    first_victim: 0,
    result: of_lammps,
};
/// HPCC. Its rank 0 appends to a file, where a replacement would append everything again.
pub const BENCHMARK: Package =
    Package { name: "hpcc", words: &["hpcc"], input: ("hpccinf.txt", HPCC), first_victim: 1, result: of_hpcc };

impl Package {
    /// A job in this folder, of which the program is set.
    ///
    /// # Panics
    /// If nothing can be written there.
    #[must_use]
    pub fn set_up(&self, job: Job, folder: &Path) -> Job {
        fs::write(folder.join(self.input.0), self.input.1).expect("the folder of the test can be written");
        let _ = fs::remove_file(folder.join("hpccoutf.txt"));
        job.options(&["--wdir", &*folder.display().to_string()]).program(self.words)
    }
}
