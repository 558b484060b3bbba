//! Checkpoints of the program, as `libringwatch` asks for them.

use std::ffi::c_int;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

use checkpoints::file::Head;
use checkpoints::region::Region;
use checkpoints::table::{NONE, Table};
use checkpoints::whole::encode;
use openmpi_internals::error_class::{
    ERR_ARG, ERR_COMM, ERR_INTERN, ERR_IO, ERR_NO_SPACE, ERR_NO_SUCH_FILE, ERR_OTHER,
};
use openmpi_internals::layout::mpi::MPI_ERR_REQUEST;
use openmpi_internals::sync::lock;
use platform::say::say;
use virtual_ranks::entries::probes;
use virtual_ranks::layer::{self, Layer};

use crate::engine::checkpoints::NotSaved;
use crate::engine::{Engine, partner};
use crate::logged::{self, Logged};
use crate::output;
use crate::store::{Part, Restored};

/// What the component exports.
pub const TABLE: Table = Table { is_active, is_layered, restore, save, end };

/// Whether the program holds handles of messages, which no replacement would have.
fn is_busy(layer: &Layer) -> bool {
    lock(&layer.requests).is_busy() || lock(&layer.operations).is_any() || probes::has_matched()
}

extern "C" fn is_active() -> bool {
    logged::present().is_some()
}

extern "C" fn is_layered() -> bool {
    layer::present().is_some()
}

/// An error class; 0 for success.
fn class(body: impl FnOnce(&'static Layer, &mut Logged) -> Result<(), c_int>) -> c_int {
    let run = || match (layer::present(), logged::present()) {
        (Some(layer), Some(logged)) => body(layer, &mut lock(logged)),
        _ => Err(ERR_INTERN),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(ERR_INTERN)).err().unwrap_or(0)
}

/// # Safety
/// There are so many regions of the program.
unsafe fn regions<'a>(regions: *const Region, count: usize) -> &'a [Region] {
    // SAFETY: as required of the caller.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(regions, count) } }
}

unsafe extern "C" fn restore(first: *const Region, count: usize, version: *mut c_int) -> c_int {
    class(|layer, logged| {
        // SAFETY: as `libringwatch` calls it.
        unsafe {
            *version = NONE;
            *version = restore_to(layer, logged, regions(first, count))?;
        }
        Ok(())
    })
}

/// # Safety
/// The regions are memory of the program.
unsafe fn restore_to(layer: &Layer, logged: &mut Logged, regions: &[Region]) -> Result<c_int, c_int> {
    let Logged { engine, checkpoints } = logged;
    let checkpoints = checkpoints.as_mut().ok_or(ERR_NO_SUCH_FILE)?;
    let is_busy = is_busy(layer) || engine.has_open_receives();
    let restored = engine.end_set_up()?;
    checkpoints.communicators = Some(lock(&layer.comms).numbers());
    if is_busy {
        if restored.is_some() {
            engine.fail("the program has requests under way at its restore point, and had none before its death");
        }
        say(&format!(
            "ringwatch: rank {} has requests under way at its restore point: its checkpoints are not saved",
            layer.rank
        ));
        return Err(MPI_ERR_REQUEST);
    }
    let Some(restored) = restored else { return Ok(NONE) };
    let Restored { whole, part } = *restored;
    // SAFETY: as required of the caller.
    if let Err(reason) = unsafe { whole.load(regions) } {
        engine.fail(&format!("the checkpoint {} {reason}", whole.source));
        return Err(ERR_ARG);
    }
    lock(&layer.comms).restore(part.next_communicator, &part.operations);
    output::go_on_from(part.printed);
    checkpoints.versions = (Some(whole.head.version), None);
    c_int::try_from(whole.head.version).map_err(|_| ERR_INTERN)
}

unsafe extern "C" fn save(first: *const Region, count: usize, version: c_int) -> c_int {
    // SAFETY: as `libringwatch` calls it.
    class(|layer, logged| unsafe { save_from(layer, logged, regions(first, count), version) })
}

/// # Safety
/// The regions are memory of the program.
unsafe fn save_from(layer: &Layer, logged: &mut Logged, regions: &[Region], version: c_int) -> Result<(), c_int> {
    let Logged { engine, checkpoints } = logged;
    let checkpoints = checkpoints.as_mut().ok_or(ERR_NO_SUCH_FILE)?;
    let version = u32::try_from(version).map_err(|_| ERR_ARG)?;
    let at_restore = checkpoints.communicators.as_ref().filter(|_| !checkpoints.has_ended).ok_or(ERR_OTHER)?;
    if checkpoints.versions.0.is_some_and(|last| version <= last) {
        return Err(ERR_ARG);
    }
    if is_busy(layer) {
        checkpoints.complain(version, "requests are under way");
        return Err(MPI_ERR_REQUEST);
    }
    let (next_communicator, operations) = lock(&layer.comms).positions();
    if operations.iter().any(|(number, _)| !at_restore.contains(number)) {
        checkpoints.complain(version, "a communicator was made after the restore point");
        return Err(ERR_COMM);
    }
    let printed = output::settle().ok_or(ERR_IO)?;
    let saving = match engine.begin_checkpoint() {
        Ok(saving) => saving,
        Err(NotSaved::NotNow) => return Ok(()),
        Err(NotSaved::OpenReceives) => {
            checkpoints.complain(version, "receives are under way");
            return Err(MPI_ERR_REQUEST);
        }
        Err(NotSaved::NoSetUp) => {
            checkpoints.complain(version, "what was received before the restore point is more than a rank may keep");
            return Err(ERR_OTHER);
        }
        Err(NotSaved::Failed(code)) => return Err(code),
    };
    let part = Part {
        machine: saving.machine,
        position: engine.position(),
        set_up: saving.set_up,
        printed,
        next_communicator,
        operations,
    };
    let part = postcard::to_stdvec(&part).map_err(|_| ERR_INTERN)?;
    let head = Head {
        job: checkpoints.job,
        rank: layer.rank,
        ranks: engine.world.ranks(),
        version,
        layer: part.len() as u64,
        regions: regions.iter().map(|region| (region.id, region.bytes as u64)).collect(),
    };
    // SAFETY: as required of the caller.
    let memory = regions.iter().map(|region| unsafe { region.as_slice() });
    let written = match &checkpoints.folder {
        Some(folder) => folder.write(&head, &part, memory).map_err(|error| {
            let is_full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            (if is_full { ERR_NO_SPACE } else { ERR_IO }, error.to_string())
        }),
        None => save_with_partner(engine, &head, &part, memory),
    };
    engine.end_checkpoint(saving.number, written.is_ok());
    if let Err((code, reason)) = written {
        checkpoints.complain(version, &reason);
        return Err(code);
    }
    checkpoints.versions = (Some(version), checkpoints.versions.0);
    if let (Some(folder), Some(before)) = (&checkpoints.folder, checkpoints.versions.1) {
        folder.remove_below(before);
    }
    Ok(())
}

/// The partner of this rank gets a checkpoint.
///
/// # Errors
/// The error class of MPI, and why.
fn save_with_partner<'a>(
    engine: &mut Engine,
    head: &Head,
    part: &[u8],
    memory: impl Iterator<Item = &'a [u8]>,
) -> Result<(), (c_int, String)> {
    let no_memory = || (ERR_NO_SPACE, "there is not enough memory".to_string());
    let bytes: u64 = head.regions.iter().map(|(_, bytes)| bytes).sum();
    if bytes > partner::room() {
        return Err(no_memory());
    }
    let bytes = encode(head, part, memory).map_err(|_| no_memory())?;
    engine.save_with_partner(head.version, bytes).map_err(|code| match code {
        ERR_NO_SPACE => (code, "its node has not enough memory".into()),
        _ => (code, "a rank is dead that nobody replaces".into()),
    })
}

extern "C" fn end(keep: c_int) -> c_int {
    class(|_, logged| {
        let checkpoints = logged.checkpoints.as_mut().ok_or(ERR_NO_SUCH_FILE)?;
        checkpoints.has_ended = true;
        checkpoints.goes = keep == 0;
        Ok(())
    })
}
