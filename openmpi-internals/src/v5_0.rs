//! Open MPI 5.0: the names of its functions and variables, where its structs have their members, and how this is asked
//! at run time. Why what is built on that is sound: `v5_0/SAFETY.md`.

pub mod functions;
pub mod layout;
pub mod probe;
pub mod variables;
