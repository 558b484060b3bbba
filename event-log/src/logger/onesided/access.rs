//! What a writer knows of each region.

use crate::determinant::DeterminantId;
use crate::logger::onesided::planes::Planes;

/// One region.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It is not opened yet.
    None,
    /// It is opened, and is being read.
    Opened,
    /// It can be written to. All up to this id are there that were not stable.
    Ready(Planes, DeterminantId),
}

impl Access {
    /// Whether it can be written to.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Access::Ready(..))
    }

    /// All up to this id are there that were not stable.
    #[must_use]
    pub fn written(&self) -> DeterminantId {
        if let Access::Ready(_, up_to) = self { *up_to } else { 0 }
    }

    /// How many ids have slots of their own, as far as that is known.
    #[must_use]
    pub fn capacity(&self) -> Option<u64> {
        if let Access::Ready(planes, _) = self { Some(planes.capacity()) } else { None }
    }
}
