//! What `libringwatch` asks of message logging. That is in the component of Open MPI, another library of the same
//! release, which exports a table with the name [`NAME`].

use std::ffi::{CStr, c_int};

use crate::region::Region;

/// The name of the table. Another layout is another name.
pub const NAME: &CStr = c"rw_checkpoints_2";

/// The file name of the component.
pub const COMPONENT: &str = "mca_hook_ringwatch.so";

/// The parameter with the folder, as a variable of the environment.
pub const FOLDER_VARIABLE: &str = "OMPI_MCA_hook_ringwatch_checkpoints";

/// The value of that parameter for which checkpoints are in the memory of partners, and in no folder.
pub const PARTNER: &str = "partner";

/// No version.
pub const NONE: c_int = -1;

/// Functions of message logging. `restore`, `save` and `end` return an error class.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Whether the job runs under message logging. `restore`, `save` and `end` are called only then.
    pub is_active: extern "C" fn() -> bool,
    /// Whether message logging or replication stands between the program and MPI: the program's handles are not Open
    /// MPI's.
    pub is_layered: extern "C" fn() -> bool,
    /// The program has come to its restore point. Fills so many regions and says which version they are of, or
    /// [`NONE`].
    pub restore: unsafe extern "C" fn(regions: *const Region, count: usize, version: *mut c_int) -> c_int,
    /// Saves so many regions as a version.
    pub save: unsafe extern "C" fn(regions: *const Region, count: usize, version: c_int) -> c_int,
    /// The program saves nothing any more. Its files go at the end of the job unless they are kept.
    pub end: extern "C" fn(keep: c_int) -> c_int,
}
