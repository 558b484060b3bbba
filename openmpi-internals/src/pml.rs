//! The functions of Open MPI that carry messages.

use crate::loaded::Library;
use crate::object::Object;
use crate::v5_0::variables::MCA_PML;

/// The table of them (`mca_pml_base_module_t`), the same for all communicators.
pub struct Messages(*const Object);

// SAFETY: the address of what lives as long as libmpi.
unsafe impl Send for Messages {}
// SAFETY: as above.
unsafe impl Sync for Messages {}

impl Messages {
    /// `None` if this Open MPI has none.
    pub fn find(library: &Library) -> Option<Self> {
        Some(Self(library.variable(MCA_PML)?))
    }

    /// The function at a place of the table.
    ///
    /// # Safety
    /// Its type.
    pub unsafe fn function<F: Copy>(&self, place: usize) -> F {
        // SAFETY: as required of the caller.
        unsafe { self.0.add(place).cast::<F>().read() }
    }
}
