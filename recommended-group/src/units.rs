//! How processes, events and time are counted.

/// A point in time: how long after an arbitrary origin, on the process's own clock, which never goes back.
pub type Time = std::time::Duration;

/// A process: 0 to N - 1, without holes.
pub type Rank = u32;

/// How often a process has left the group or come back: even is recommended, odd is not.
pub type Counter = u32;
