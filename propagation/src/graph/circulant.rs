//! Computes the paper's double hypercube (section 2.2).
//!
//! With k = floor(log2 n) the paper broadcasts twice over a hypercube of 2^k labels: once over the labels j and once
//! over the labels (n - j) mod n, for 0 <= j < 2^k. The links of both together form a circulant graph with the jumps
//! +-2^j, 0 <= j < k. This module builds that graph: on the first reception every participant, whatever its label,
//! forwards along all its jumps except to the copy's sender and to the source. Labels from 2^k on need no special
//! treatment, because the second hypercube contains them, counted from behind.
//!
//! - **Messages:** at most 2k copies per participant, each answered by one acknowledgement where copies get lost.
//! - **Depth:** every label is a sum of at most floor((k + 3) / 2) jumps of either direction.
//! - **Resilience:** the paper promises that k-1 participants may crash during the broadcast. The circulant graph
//!   tolerates more: it stays connected without any 2k-2 of its nodes, which the tests check up to n = 16. Copies that
//!   a crashing node has sent before only help.

/// The labels to which one of `count` labels forwards, the farthest jumps first.
pub fn neighbours(count: u32, label: u32) -> impl Iterator<Item = u32> {
    let (n, label) = (u64::from(count), u64::from(label));
    (0..count.checked_ilog2().unwrap_or(0)).rev().flat_map(move |exponent| {
        let jump = 1_u64 << exponent;
        // Half way around, both directions lead to the same label.
        let back = (2 * jump != n).then_some(n - jump);
        [Some(jump), back].into_iter().flatten().map(move |jump| ((label + jump) % n) as u32)
    })
}
