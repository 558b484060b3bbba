//! The processes behind the endpoints of Open MPI's transports, and the tables through which windows ask them.
//!
//! Offsets are those of osc_rdma.h, proc.h and bml.h on x86-64; each object is asked for its class first.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, OnceLock};

use crate::connections::Connections;
use crate::internals::Internals;
use crate::line::lock;
use crate::members::NAME;
use crate::objects::{Class, Object};
use crate::openmpi::{Library, ProcessName};

/// Of `ompi_osc_rdma_module_t`: whether its transport does without the table, the tables, and how many.
const OTHER_TRANSPORT: usize = 0x430;
const TABLES: usize = 0x438;
const TABLE_COUNT: usize = 0x440;
/// Bytes of `mca_btl_base_am_rdma_module_t`, of `ompi_proc_t` and of `mca_bml_base_endpoint_t`, which Open MPI's classes say, too.
const SIZES: [usize; 3] = [0x60, 0x78, 0xe8];
/// Of `ompi_proc_t`: whether it is not known to be dead, and its endpoints.
const IS_ACTIVE: usize = 0x40;
const ENDPOINTS: usize = 0x48;
const ENDPOINT_COUNT: usize = 4;
/// Of `mca_bml_base_endpoint_t`: three lists of endpoints of transports; and of each the length and the entries, which have
/// the endpoint last of three words.
const LISTS: [usize; 3] = [0x48, 0x78, 0xa8];
const LENGTH: usize = 0x10;
const ENTRIES: usize = 0x28;

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
    process != 0 && unsafe { !(process as Object).byte_add(IS_ACTIVE).cast::<bool>().read_volatile() }
}

/// Whether messages can be sent to a process.
pub fn is_reached(process: usize) -> bool {
    OpenMpi::get().is_some_and(|open_mpi| !open_mpi.endpoints(process).is_empty())
}

/// Has Open MPI take a process for one that it has not heard of as dead.
pub fn forget_death(process: usize) {
    // SAFETY: as above; Open MPI writes the same in its place.
    unsafe { (process as Object).byte_add(IS_ACTIVE).cast::<bool>().write_volatile(true) };
}

/// Closes the connections to a process that is dead.
pub fn cut(process: usize) {
    if let Some(connections) = Connections::get() {
        // SAFETY: as above.
        connections.cut(unsafe { (process as Object).byte_add(NAME).cast::<ProcessName>().read() });
    }
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
    memory: File,
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
            library.symbol(c"mca_btl_base_am_rdma_module_t_class")?,
            library.symbol(c"ompi_proc_t_class")?,
            library.symbol(c"mca_bml_base_endpoint_t_class")?,
        ];
        // SAFETY: classes of Open MPI.
        let fits = classes.iter().zip(SIZES).all(|(class, size)| unsafe { (*class.cast::<Class>()).size } == size);
        // SAFETY: the types are those of proc.h.
        let (all_processes, process_named) =
            unsafe { (library.function(c"ompi_proc_all")?, library.function(c"ompi_proc_for_name")?) };
        let memory = File::open("/proc/self/mem").ok().filter(|_| fits)?;
        Some(Self { classes: classes.map(|class| class as usize), all_processes, process_named, memory })
    }

    /// A word of this process's memory, where a wrong address is an error and no crash.
    fn word(&self, address: usize) -> Option<usize> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address as u64).ok().map(|()| usize::from_ne_bytes(bytes))
    }

    /// The tables of a window's module; none if it is of another component or transport.
    fn tables(&self, module: Object) -> Vec<Object> {
        let at = |offset| self.word(module as usize + offset);
        let find = || {
            let count = (at(OTHER_TRANSPORT)? & 0xff == 0).then_some(at(TABLE_COUNT)? & 0xff)?;
            let list = at(TABLES)?;
            (0..count)
                .map(|index| {
                    let table = self.word(list + 8 * index)?;
                    (self.word(table)? == self.classes[0]).then_some(table as Object)
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
        let is = |object: usize, class: usize| object != 0 && self.word(object) == Some(self.classes[class]);
        let words = (0..ENDPOINT_COUNT).filter_map(|index| self.word(process + ENDPOINTS + 8 * index));
        let Some(own) = words.filter(|_| is(process, 1)).find(|word| is(*word, 2)) else { return Vec::new() };
        let entries = |list: usize| {
            let (length, first) = (self.word(own + list + LENGTH)?, self.word(own + list + ENTRIES)?);
            Some((0..length).filter_map(move |index| self.word(first + 24 * index + 16)))
        };
        LISTS.into_iter().filter_map(entries).flatten().collect()
    }
}
