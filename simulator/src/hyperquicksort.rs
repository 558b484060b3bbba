//! HyperQuickSort (Wagar 1987) that maps each round anew on the recommended processes (Camargo and Duarte 2018).
//!
//! There are 2^d slots, each with a list. In round s, from d down to 1, the slots of a cluster of 2^s split their lists
//! by one pivot and exchange halves across bit s - 1. A slot whose process is not recommended is looked after by
//! another one, which reads the slot's file.
//!
//! | module | idea |
//! |---|---|
//! | [`plain`] | the same without processes: what every round must come to |
//! | [`sorter`] | a process's part of a round as a state machine without I/O |
//! | [`rounds`] | rounds with any processes, any of which may be lost in the middle |
//! | [`job`] | a sort whose processes are killed and stopped, on the group that finds it |

pub mod job;
pub mod plain;
pub mod rounds;
pub mod sorter;
