//! Structs of Open MPI 5.0 on x86-64: offsets and sizes in bytes, places in tables, and values, by Open MPI's own
//! names.
//!
//! The one list of them, a file for each part of Open MPI. `tests/layout.rs` has the C compiler compare each line with
//! the headers of the installed release, and fails where one differs.

#[macro_use]
pub mod fact;
mod collectives;
mod communicators;
mod constants;
mod files;
mod messages;
mod objects;
mod requests;
mod transports;
mod windows;

pub use self::collectives::*;
pub use self::communicators::*;
pub use self::constants::*;
use self::fact::Fact;
pub use self::files::*;
pub use self::messages::*;
pub use self::objects::*;
pub use self::requests::*;
pub use self::transports::*;
pub use self::windows::*;

/// All lines, by file.
pub const FACTS: &[&[Fact]] = &[
    collectives::FACTS,
    communicators::FACTS,
    constants::FACTS,
    files::FACTS,
    messages::FACTS,
    objects::FACTS,
    requests::FACTS,
    transports::FACTS,
    windows::FACTS,
];
