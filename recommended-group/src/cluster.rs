//! The clusters of a virtual hypercube (Hi-ADSD, VCube), and who stands in for whom.

use crate::units::Rank;

/// The processes of cluster `s` of a process, in the order of the papers' c(i,s); `s` is at least 1.
///
/// Closed form of the recursive definition: i xor 2^(s-1) xor k, for k = 0 to 2^(s-1) - 1.
pub fn cluster(i: Rank, s: u32) -> impl Iterator<Item = Rank> {
    let half = 1 << (s - 1);
    (0..half).map(move |k| i ^ half ^ k)
}

/// The dimension of the smallest hypercube with so many processes.
#[must_use]
pub fn dimension(count: u32) -> u32 {
    count.next_power_of_two().trailing_zeros()
}

/// Who does the work of slot `v`: process v if it is recommended, else the first recommended one of its clusters, the
/// smallest cluster first. None if nobody is recommended. (The papers' `replace`; their `partner` leaves exchanges out
/// and is not used.)
pub fn owner(v: Rank, dimension: u32, is_recommended: impl Fn(Rank) -> bool) -> Option<Rank> {
    let others = (1..=dimension).flat_map(|s| cluster(v, s));
    std::iter::once(v).chain(others).find(|rank| is_recommended(*rank))
}
