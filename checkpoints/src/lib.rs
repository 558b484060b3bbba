//! The checkpoints of a rank: a file per rank and version, in a folder that all nodes see, or the same bytes in memory.
//!
//! | module | one idea |
//! |---|---|
//! | [`region`] | memory of the program that a checkpoint keeps |
//! | [`file`] | the format, and why a file that is not whole is refused |
//! | [`folder`] | names, writing in one step, the last whole file, removing old ones |
//! | [`whole`] | a checkpoint that is whole, in a file or in memory |
//! | [`table`] | what `libringwatch` asks of message logging, which is in another library |

pub mod file;
pub mod folder;
pub mod region;
pub mod table;
pub mod whole;
