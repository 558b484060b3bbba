//! The node of a rank.

use std::ffi::{c_char, c_int};

use mpi_entry::entries::Handler;

use crate::handlers::handlers;
use crate::layer::answer_plainly;
use crate::processor_names::LONGEST;

pub(super) const HANDLERS: &[Handler] = handlers! { "Get_processor_name" => get_processor_name };

unsafe extern "C-unwind" fn get_processor_name(name: *mut c_char, length: *mut c_int) -> c_int {
    answer_plainly(|layer| {
        let own = &layer.nodes[layer.rank as usize];
        let count = own.iter().position(|byte| *byte == 0).unwrap_or(LONGEST - 1);
        // SAFETY: the program has room for MPI_MAX_PROCESSOR_NAME bytes, and for the answer.
        unsafe {
            own.as_ptr().cast::<c_char>().copy_to_nonoverlapping(name, count);
            name.add(count).write(0);
            *length = count as c_int;
        }
        Ok(())
    })
}
