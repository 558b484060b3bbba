//! The same without processes: what every round must come to.

/// What is sorted.
pub type Value = i64;

/// The pivot where the root's list is empty. Any value is right; the halves may differ much.
pub const FALLBACK: Value = 0;

/// A pivot for a sorted list: its median.
#[must_use]
pub fn pivot(list: &[Value]) -> Value {
    list.get(list.len().saturating_sub(1) / 2).copied().unwrap_or(FALLBACK)
}

/// The part up to the pivot and the part above it, of a sorted list. What is equal goes to one side only.
#[must_use]
pub fn split(list: &[Value], pivot: Value) -> (Vec<Value>, Vec<Value>) {
    let (low, high) = list.split_at(list.partition_point(|value| *value <= pivot));
    (low.to_vec(), high.to_vec())
}

/// One sorted list of two.
#[must_use]
pub fn merge(one: Vec<Value>, other: &[Value]) -> Vec<Value> {
    let mut list = one;
    list.extend_from_slice(other);
    // Two runs: the standard library's sort merges them.
    list.sort();
    list
}

/// Round `s` of all slots; their lists are sorted.
#[must_use]
pub fn round(lists: &[Vec<Value>], s: u32) -> Vec<Vec<Value>> {
    let half = 1 << (s - 1);
    let parts: Vec<_> = (0..lists.len()).map(|v| split(&lists[v], pivot(&lists[v & !((2 * half) - 1)]))).collect();
    let of = |v: usize| {
        let other = &parts[v ^ half];
        if v & half == 0 { merge(parts[v].0.clone(), &other.0) } else { merge(parts[v].1.clone(), &other.1) }
    };
    (0..lists.len()).map(of).collect()
}
