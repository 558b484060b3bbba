//! The processes behind the endpoints of Open MPI's transports, and the tables through which windows ask them.
//!
//! Each object is asked for its class first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, OnceLock};

use crate::communicator::Internals;
use crate::loaded::Library;
use crate::object::Object;
use crate::process_name::ProcessName;
use crate::sync::lock;
use crate::v5_0::functions::{OMPI_PROC_ALL, OMPI_PROC_FOR_NAME};
use crate::v5_0::layout::proc::{ENDPOINTS, OPAL_PROC_ON_NODE, PROC_ACTIVE, PROC_ENDPOINTS, PROC_FLAGS, PROC_NAME};
use crate::v5_0::layout::{self, am_rdma, bml_array, bml_endpoint, bml_entry, osc_rdma};
use crate::v5_0::probe::{self, Memory};
use crate::v5_0::variables::{MCA_BML_BASE_ENDPOINT_T_CLASS, MCA_BTL_BASE_AM_RDMA_MODULE_T_CLASS, OMPI_PROC_T_CLASS};

/// Of the endpoints to a process: the lists of those of transports.
const LISTS: [usize; 3] = [bml_endpoint::BTL_EAGER, bml_endpoint::BTL_SEND, bml_endpoint::BTL_RDMA];

/// Processes by their endpoints.
static PROCESSES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// The tables of a window's module; none if it is of another component or transport.
pub fn tables(module: Object) -> Vec<Object> {
    lock(&PROCESSES).clear();
    OpenMpi::get().map_or(Vec::new(), |open_mpi| open_mpi.tables(module))
}

/// Whether this Open MPI's processes are those that this module knows.
pub fn are_known() -> bool {
    OpenMpi::get().is_some()
}

/// The process of a name, or 0.
pub fn process_named(name: ProcessName) -> usize {
    // SAFETY: Open MPI's own function, which takes its own lock.
    OpenMpi::get().map_or(0, |open_mpi| unsafe { (open_mpi.process_named)(name) } as usize)
}

/// Whether Open MPI holds a process dead.
pub fn is_dead(process: usize) -> bool {
    // SAFETY: a process that Open MPI has known, and keeps as long as it has windows or messages with it.
    process != 0 && unsafe { !(process as Object).byte_add(PROC_ACTIVE).cast::<bool>().read_volatile() }
}

/// Whether a process is on the node of this one.
///
/// # Safety
/// A process of Open MPI.
pub unsafe fn is_on_this_node(process: Object) -> bool {
    // SAFETY: as required of the caller.
    unsafe { process.byte_add(PROC_FLAGS).cast::<u16>().read() & OPAL_PROC_ON_NODE != 0 }
}

/// Whether messages can be sent to a process.
pub fn is_reached(process: usize) -> bool {
    OpenMpi::get().is_some_and(|open_mpi| !open_mpi.endpoints(process).is_empty())
}

/// Has Open MPI take a process for one that it has not heard of as dead.
pub fn forget_death(process: usize) {
    // SAFETY: as above; Open MPI writes the same in its place.
    unsafe { (process as Object).byte_add(PROC_ACTIVE).cast::<bool>().write_volatile(true) };
}

/// The name of a process.
pub fn name_of(process: usize) -> ProcessName {
    // SAFETY: as of [`is_dead`].
    unsafe { (process as Object).byte_add(PROC_NAME).cast::<ProcessName>().read() }
}

/// The process to which an endpoint leads, or 0.
pub fn process_of(endpoint: Object) -> usize {
    if let Some(process) = lock(&PROCESSES).get(&(endpoint as usize)) {
        return *process;
    }
    let all = OpenMpi::get().map_or(BTreeMap::new(), OpenMpi::processes);
    let process = all.get(&(endpoint as usize)).copied().unwrap_or(0);
    lock(&PROCESSES).extend(all);
    process
}

/// The endpoints of all processes that Open MPI holds dead.
pub fn of_the_dead() -> BTreeSet<usize> {
    let mut all = BTreeSet::new();
    if let Some(open_mpi) = OpenMpi::get() {
        open_mpi.each(|process| {
            if is_dead(process) {
                all.extend(open_mpi.endpoints(process));
            }
        });
    }
    all
}

/// What is used of Open MPI here.
struct OpenMpi {
    /// Classes of tables, of processes and of their endpoints.
    classes: [usize; 3],
    all_processes: unsafe extern "C" fn(*mut usize) -> *mut Object,
    process_named: unsafe extern "C" fn(ProcessName) -> Object,
    memory: Memory,
}

impl OpenMpi {
    /// `None` if this Open MPI lacks something, or has other objects.
    fn get() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<OpenMpi>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref()
    }

    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        let classes = [
            library.variable(MCA_BTL_BASE_AM_RDMA_MODULE_T_CLASS)?,
            library.variable(OMPI_PROC_T_CLASS)?,
            library.variable(MCA_BML_BASE_ENDPOINT_T_CLASS)?,
        ];
        let sizes = [am_rdma::SIZE, layout::proc::SIZE, bml_endpoint::SIZE];
        // SAFETY: classes of Open MPI.
        let fits = classes.iter().zip(sizes).all(|(class, size)| unsafe { probe::has_size(*class, size) });
        let (all_processes, process_named) = (library.function(OMPI_PROC_ALL)?, library.function(OMPI_PROC_FOR_NAME)?);
        let memory = Memory::open().filter(|_| fits)?;
        Some(Self { classes: classes.map(|class| class as usize), all_processes, process_named, memory })
    }

    /// The tables of a window's module; none if it is of another component or transport.
    fn tables(&self, module: Object) -> Vec<Object> {
        let at = |offset| self.memory.word(module as usize + offset);
        let find = || {
            let count = (at(osc_rdma::USE_ACCELERATED_BTL)? & 0xff == 0)
                .then_some(at(osc_rdma::ALTERNATE_BTL_COUNT)? & 0xff)?;
            let list = at(osc_rdma::ALTERNATE_AM_RDMAS)?;
            (0..count)
                .map(|index| {
                    let table = self.memory.word(list + 8 * index)?;
                    (self.memory.word(table)? == self.classes[0]).then_some(table as Object)
                })
                .collect::<Option<Vec<Object>>>()
        };
        find().unwrap_or_default()
    }

    /// All processes that Open MPI knows, by their endpoints.
    fn processes(&self) -> BTreeMap<usize, usize> {
        let mut all = BTreeMap::new();
        self.each(|process| all.extend(self.endpoints(process).into_iter().map(|endpoint| (endpoint, process))));
        all
    }

    /// Looks at all processes that Open MPI knows.
    fn each(&self, mut look: impl FnMut(usize)) {
        let (Some(mpi), mut count) = (Internals::get(), 0) else { return };
        // SAFETY: Open MPI's list, whose memory and references are the caller's.
        unsafe {
            let list = (self.all_processes)(&mut count);
            for index in 0..if list.is_null() { 0 } else { count } {
                let process = list.add(index).read();
                look(process as usize);
                mpi.classes.release(process);
            }
            libc::free(list.cast());
        }
    }

    /// The endpoints of all transports to a process.
    fn endpoints(&self, process: usize) -> Vec<usize> {
        let is = |object: usize, class: usize| object != 0 && self.memory.word(object) == Some(self.classes[class]);
        let words = (0..ENDPOINTS).filter_map(|index| self.memory.word(process + PROC_ENDPOINTS + 8 * index));
        let Some(own) = words.filter(|_| is(process, 1)).find(|word| is(*word, 2)) else { return Vec::new() };
        let entries =
            |list: usize| {
                let (length, first) = (
                    self.memory.word(own + list + bml_array::ARR_SIZE)?,
                    self.memory.word(own + list + bml_array::BML_BTLS)?,
                );
                Some((0..length).filter_map(move |index| {
                    self.memory.word(first + bml_entry::SIZE * index + bml_entry::BTL_ENDPOINT)
                }))
            };
        LISTS.into_iter().filter_map(entries).flatten().collect()
    }
}
