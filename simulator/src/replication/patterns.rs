//! Who sends how much to whom in the programs of the NAS Parallel Benchmarks (NPB 3), reduced to computing and
//! messages.
//!
//! Sizes of classes, iterations and operations are those that NPB publishes. Collective operations are messages between
//! pairs.

use std::str::FromStr;

use event_log::determinant::Rank;

/// One piece of a rank's program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// So many floating point operations.
    Compute(f64),
    /// A message of so many bytes.
    Send(Rank, u64),
    /// A receive starts.
    Post(Rank),
    /// A wait for all receives that have started.
    WaitAll,
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Program {
    Bt,
    Cg,
    Ep,
    Ft,
    Is,
    Lu,
    Sp,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::Bt, Self::Cg, Self::Ep, Self::Ft, Self::Is, Self::Lu, Self::Sp];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bt => "BT",
            Self::Cg => "CG",
            Self::Ep => "EP",
            Self::Ft => "FT",
            Self::Is => "IS",
            Self::Lu => "LU",
            Self::Sp => "SP",
        }
    }

    /// Iterations and Gflop of a class (0: A, 1: B, 2: C), and the points: of an edge for BT, LU, SP; rows for CG; all
    /// for the others.
    fn class(self, class: usize) -> (u32, f64, f64) {
        match self {
            Self::Bt => [(200, 168.3, 64.0), (200, 721.5, 102.0), (200, 2_834.3, 162.0)][class],
            Self::Cg => [(15, 1.508, 14e3), (75, 54.89, 75e3), (75, 143.3, 150e3)][class],
            Self::Ep => [(16, 26.68, 2e28), (16, 100.9, 2e30), (16, 427.0, 2e32)][class],
            Self::Ft => [(6, 7.16, 8_388_608.0), (20, 92.05, 33_554_432.0), (20, 396.2, 134_217_728.0)][class],
            Self::Is => [(10, 0.7864, 8_388_608.0), (10, 3.146, 33_554_432.0), (10, 12.58, 134_217_728.0)][class],
            Self::Lu => [(250, 119.3, 64.0), (250, 544.7, 102.0), (250, 2_040.9, 162.0)][class],
            Self::Sp => [(400, 102.3, 64.0), (400, 447.1, 102.0), (400, 1_817.9, 162.0)][class],
        }
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let is_it = |program: &Self| program.name().eq_ignore_ascii_case(name);
        Self::ALL.into_iter().find(is_it).ok_or_else(|| format!("{name} is no program"))
    }
}

/// A program with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The program.
    pub program: Program,
    /// 0: A, 1: B, 2: C.
    pub class: usize,
    /// Ranks: a square for BT and SP, a power of two for the others.
    pub ranks: u32,
    /// How many of its iterations; EP has one reduction at the end of them, whatever they are.
    pub iterations: u32,
}

impl Pattern {
    /// What a rank does.
    #[must_use]
    pub fn script(&self, me: Rank) -> Vec<Op> {
        let mut ops = Vec::new();
        for iteration in 0..self.iterations {
            match self.program {
                Program::Bt => self.sweeps(me, 30.0, 5.0, &mut ops),
                Program::Sp => self.sweeps(me, 22.0, 10.0, &mut ops),
                Program::Cg => self.gradient(me, &mut ops),
                Program::Ep => {
                    ops.push(Op::Compute(self.work()));
                    if iteration + 1 == self.iterations {
                        (0..3).for_each(|_| self.reduce(me, 80, &mut ops));
                    }
                }
                Program::Ft => {
                    ops.push(Op::Compute(self.work()));
                    self.all_to_all(me, 16.0 * self.points() / f64::from(self.ranks * self.ranks), &mut ops);
                    self.reduce(me, 16, &mut ops);
                }
                Program::Is => {
                    ops.push(Op::Compute(self.work()));
                    self.reduce(me, 4_096, &mut ops);
                    self.all_to_all(me, 4.0, &mut ops);
                    self.all_to_all(me, 4.0 * self.points() / f64::from(self.ranks * self.ranks), &mut ops);
                }
                Program::Lu => self.wavefronts(me, &mut ops),
            }
        }
        ops
    }

    fn points(&self) -> f64 {
        self.program.class(self.class).2
    }

    /// Operations of a rank in an iteration.
    fn work(&self) -> f64 {
        let (iterations, gigaflop, _) = self.program.class(self.class);
        gigaflop * 1e9 / f64::from(iterations) / f64::from(self.ranks)
    }

    fn exchange(ops: &mut Vec<Op>, to: Rank, from: Rank, bytes: f64) {
        ops.extend([Op::Post(from), Op::Send(to, bytes.max(8.0) as u64), Op::WaitAll]);
    }

    /// By doubling, with the next power of two below for those beyond it.
    fn reduce(&self, me: Rank, bytes: u64, ops: &mut Vec<Op>) {
        let whole = 1 << self.ranks.ilog2();
        if me >= whole {
            Self::exchange(ops, me - whole, me - whole, bytes as f64);
            return;
        }
        let extra = (me + whole < self.ranks).then_some(me + whole);
        if let Some(extra) = extra {
            ops.extend([Op::Post(extra), Op::WaitAll]);
        }
        let mut distance = 1;
        while distance < whole {
            Self::exchange(ops, me ^ distance, me ^ distance, bytes as f64);
            distance *= 2;
        }
        ops.extend(extra.map(|extra| Op::Send(extra, bytes)));
    }

    fn all_to_all(&self, me: Rank, bytes: f64, ops: &mut Vec<Op>) {
        let peer = |distance| (me + distance) % self.ranks;
        ops.extend((1..self.ranks).map(|distance| Op::Post(peer(self.ranks - distance))));
        ops.extend((1..self.ranks).map(|distance| Op::Send(peer(distance), bytes.max(4.0) as u64)));
        ops.push(Op::WaitAll);
    }

    /// BT and SP: faces of cells, then three solves along lines of cells, forward and back.
    fn sweeps(&self, me: Rank, forward: f64, back: f64, ops: &mut Vec<Op>) {
        let side = f64::from(self.ranks).sqrt() as u32;
        let cell = self.points() / f64::from(side);
        let face = 8.0 * cell * cell;
        let (row, column) = (me / side, me % side);
        let at = |row: u32, column: u32| (row % side) * side + column % side;
        let lines = [
            (at(row, column + 1), at(row, column + side - 1)),
            (at(row + 1, column), at(row + side - 1, column)),
            (at(row + 1, column + side - 1), at(row + side - 1, column + 1)),
        ];
        let work = self.work();
        for (next, last) in lines {
            for (to, from) in [(next, last), (last, next)] {
                ops.extend([Op::Post(from), Op::Send(to, (10.0 * face * f64::from(side)) as u64)]);
            }
        }
        ops.extend([Op::WaitAll, Op::Compute(work / 4.0)]);
        for (next, last) in lines {
            for (to, from, values) in [(next, last, forward), (last, next, back)] {
                for _ in 1..side {
                    ops.push(Op::Compute(work / 8.0 / f64::from(side)));
                    Self::exchange(ops, to, from, values * face);
                }
                ops.push(Op::Compute(work / 8.0 / f64::from(side)));
            }
        }
    }

    /// CG: 25 steps, each a sum along a row of ranks, an exchange with the transposed rank and two sums of one number.
    fn gradient(&self, me: Rank, ops: &mut Vec<Op>) {
        let bits = self.ranks.ilog2();
        let columns = 1_u32 << bits.div_ceil(2);
        let rows = self.ranks / columns;
        let (row, column) = (me / columns, me % columns);
        let vector = 8.0 * self.points() / f64::from(rows);
        // An exchange that is its own inverse, as the transposition is.
        let transposed = if rows == columns { column * columns + row } else { me ^ (self.ranks / 2) };
        for _ in 0..25 {
            ops.push(Op::Compute(self.work() / 25.0));
            let mut distance = 1;
            while distance < columns {
                let peer = row * columns + (column ^ distance);
                Self::exchange(ops, peer, peer, vector / f64::from(columns) * f64::from(columns / 2));
                distance *= 2;
            }
            if transposed != me {
                Self::exchange(ops, transposed, transposed, vector / f64::from(columns) * f64::from(rows.max(1)));
            }
            for _ in 0..2 {
                let mut distance = 1;
                while distance < columns {
                    let peer = row * columns + (column ^ distance);
                    Self::exchange(ops, peer, peer, 8.0);
                    distance *= 2;
                }
            }
        }
    }

    /// LU: a wave from the first corner of the ranks to the last one for each plane, and one back.
    fn wavefronts(&self, me: Rank, ops: &mut Vec<Op>) {
        let columns = 1_u32 << self.ranks.ilog2().div_ceil(2);
        let rows = self.ranks / columns;
        let (row, column) = (me / columns, me % columns);
        let planes = self.points() as u32 - 2;
        let (across, down) = (40.0 * self.points() / f64::from(rows), 40.0 * self.points() / f64::from(columns));
        let work = self.work() / 3.0;
        let before = [(column > 0).then(|| (me - 1, across)), (row > 0).then(|| (me - columns, down))];
        let behind = [(column + 1 < columns).then(|| (me + 1, across)), (row + 1 < rows).then(|| (me + columns, down))];
        let neighbours = || before.iter().chain(&behind).flatten();
        ops.extend(neighbours().map(|(peer, _)| Op::Post(*peer)));
        ops.extend(neighbours().map(|(peer, bytes)| Op::Send(*peer, (2.0 * bytes * self.points()) as u64)));
        ops.extend([Op::WaitAll, Op::Compute(work)]);
        for (from, to) in [(before, behind), (behind, before)] {
            for _ in 0..planes {
                ops.extend(from.iter().flatten().flat_map(|(peer, _)| [Op::Post(*peer), Op::WaitAll]));
                ops.push(Op::Compute(work / f64::from(planes)));
                ops.extend(to.iter().flatten().map(|(peer, bytes)| Op::Send(*peer, *bytes as u64)));
            }
        }
    }
}
