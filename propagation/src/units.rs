//! Defines the types of time and node numbers.

/// A point in time: the time since an arbitrary origin, on a monotonic clock.
///
/// [`Time::MAX`](std::time::Duration::MAX) means "never".
pub type Time = std::time::Duration;

/// A node of the job: 0 to [`Config::universe`](crate::Config::universe) - 1, without holes.
pub type NodeId = u32;
