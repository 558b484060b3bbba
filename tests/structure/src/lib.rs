//! Which source file imports which, and which crate depends on which: what the rules in `tests/rules.rs` are about.
//!
//! | module | one idea |
//! |---|---|
//! | [`workspace`] | the crates, and what they depend on, as cargo says |
//! | [`sources`] | the modules of a crate, and the paths in them |
//! | [`imports`] | which file imports which, and the circles among them: no I/O |

pub mod imports;
pub mod sources;
pub mod workspace;
