//! What the group of recommended processes asks of MPI: who takes part, what they tell each other when they join, who
//! is dead.

use std::ffi::{c_char, c_int, c_void};
use std::net::UdpSocket;

use group_client::addresses::{self, BYTES};
use group_client::client::{Client, Common};
use group_client::parameters::Parameters;
use group_client::question::Question;
use openmpi_internals::error_class::{ERR_ARG, ERR_COMM, ERR_INFO_VALUE, ERR_OTHER, ERR_UNSUPPORTED};
use openmpi_internals::loaded::Library;
use openmpi_internals::variables::OMPI_MPI_BYTE;

use crate::group_watch;
use crate::openmpi::{Handle, OpenMpi};

/// Longest value of an info key that is read. Keys are shorter (`MPI_MAX_INFO_KEY`).
const LONGEST: usize = 255;
/// Bytes of what rank 0 tells all.
const TOLD: usize = 128;
/// Bytes of what each process tells all.
const OWN: usize = 5 + BYTES;

/// Functions of MPI, of which none knows of the group.
struct Calls {
    is_initialized: unsafe extern "C" fn(*mut c_int) -> c_int,
    rank: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    group: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    group_size: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    group_free: unsafe extern "C" fn(*mut Handle) -> c_int,
    translate: unsafe extern "C" fn(Handle, c_int, *const c_int, Handle, *mut c_int) -> c_int,
    bcast: unsafe extern "C" fn(*mut c_void, c_int, Handle, c_int, Handle) -> c_int,
    allgather: unsafe extern "C" fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle) -> c_int,
    info_get: unsafe extern "C" fn(Handle, *const c_char, c_int, *mut c_char, *mut c_int) -> c_int,
    info_count: unsafe extern "C" fn(Handle, *mut c_int) -> c_int,
    info_key: unsafe extern "C" fn(Handle, c_int, *mut c_char) -> c_int,
    info_from_fortran: unsafe extern "C" fn(c_int) -> Handle,
    byte: Handle,
}

impl Calls {
    fn find() -> Option<Self> {
        let library = Library::loaded()?;
        // SAFETY: the types are those of mpi.h.
        unsafe {
            Some(Self {
                is_initialized: library.standard(c"PMPI_Initialized")?,
                rank: library.standard(c"PMPI_Comm_rank")?,
                size: library.standard(c"PMPI_Comm_size")?,
                group: library.standard(c"PMPI_Comm_group")?,
                group_size: library.standard(c"PMPI_Group_size")?,
                group_free: library.standard(c"PMPI_Group_free")?,
                translate: library.standard(c"PMPI_Group_translate_ranks")?,
                bcast: library.standard(c"PMPI_Bcast")?,
                allgather: library.standard(c"PMPI_Allgather")?,
                info_get: library.standard(c"PMPI_Info_get")?,
                info_count: library.standard(c"PMPI_Info_get_nkeys")?,
                info_key: library.standard(c"PMPI_Info_get_nthkey")?,
                info_from_fortran: library.standard(c"PMPI_Info_f2c")?,
                byte: library.predefined(OMPI_MPI_BYTE)?,
            })
        }
    }

    /// # Safety
    /// A handle of an info, or `MPI_INFO_NULL`.
    unsafe fn parameters(&self, info: Handle) -> Result<Parameters, c_int> {
        // SAFETY: 0 is `MPI_INFO_NULL` in Fortran.
        let is_null = info.is_null() || info == unsafe { (self.info_from_fortran)(0) };
        let mut count = 0;
        if !is_null {
            // SAFETY: an info, and room for a number.
            success(unsafe { (self.info_count)(info, &mut count) })?;
        }
        let pair = |number: c_int| {
            let (mut key, mut value, mut is_there) = ([0_u8; LONGEST + 1], [0_u8; LONGEST + 1], 0);
            // SAFETY: an info, one of its keys, and room for each text and its end.
            let code = unsafe {
                let (key, value) = (key.as_mut_ptr().cast(), value.as_mut_ptr().cast());
                let found = (self.info_key)(info, number, key);
                if found == 0 { (self.info_get)(info, key, LONGEST as c_int, value, &mut is_there) } else { found }
            };
            (code == 0 && is_there != 0).then(|| (text_of(&key), text_of(&value)))
        };
        Parameters::read((0..count).filter_map(pair)).map_err(|error| {
            platform::say::say(&format!("ringwatch: RW_Group_join: {error}"));
            ERR_INFO_VALUE
        })
    }
}

/// The text before the first zero byte.
fn text_of(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

fn success(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// What rank 0 tells all: an error class, or parameters, a number and a key.
type Told = (c_int, Parameters, u64, [u8; 32]);

/// A communicator whose processes make a group, and how this process takes part.
pub struct Processes {
    calls: Calls,
    comm: Handle,
    /// This process.
    pub me: u32,
    /// How many there are.
    pub count: u32,
    /// How many of them MPI knew to be dead at the last look.
    dead: c_int,
}

impl Processes {
    /// # Safety
    /// A handle of MPI.
    pub unsafe fn of(mpi: &OpenMpi, comm: Handle) -> Result<Self, c_int> {
        let calls = Calls::find().ok_or(ERR_UNSUPPORTED)?;
        let (mut begun, mut me, mut count, mut inter) = (0, 0, 0, 0);
        // SAFETY: as required of the caller, and room for the answers.
        unsafe {
            (calls.is_initialized)(&mut begun);
            if begun == 0 || mpi.is_finalized() {
                return Err(ERR_UNSUPPORTED);
            }
            success((mpi.is_intercommunicator)(comm, &mut inter))?;
            if inter != 0 {
                return Err(ERR_COMM);
            }
            success((calls.rank)(comm, &mut me))?;
            success((calls.size)(comm, &mut count))?;
        }
        Ok(Self { calls, comm, me: me as u32, count: count as u32, dead: 0 })
    }

    /// All processes tell each other where they are, and start. Rank 0's info counts.
    ///
    /// # Safety
    /// All processes of the communicator call it, with an info or `MPI_INFO_NULL`.
    pub unsafe fn join(&self, info: Handle, question: impl FnOnce() -> Question) -> Result<Client, c_int> {
        let calls = &self.calls;
        // SAFETY: as required of the caller.
        let told = unsafe { self.told(info)? };
        // Its first byte is 1 if this process has a socket; then come its number among all ranks, and its addresses.
        let mut own = [0_u8; OWN];
        let socket = addresses::open().map_err(|error| {
            platform::say::say(&format!("ringwatch: RW_Group_join: rank {} has no socket: {error}", self.me));
        });
        let socket: Option<UdpSocket> = socket.ok().map(|(socket, all)| {
            own[0] = 1;
            own[1..5].copy_from_slice(&group_watch::own_number().unwrap_or(self.me).to_le_bytes());
            own[5..].copy_from_slice(&addresses::write(&all));
            socket
        });
        let mut all = vec![[0_u8; OWN]; self.count as usize];
        let length = own.len() as c_int;
        // SAFETY: as required of the caller; room for the bytes of all processes.
        success(unsafe {
            let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
            (calls.allgather)(from, length, calls.byte, to, length, calls.byte, self.comm)
        })?;
        let (class, parameters, number, key) = told;
        success(class)?;
        let socket = socket.filter(|_| all.iter().all(|one| one[0] == 1)).ok_or(ERR_OTHER)?;
        let addresses =
            all.iter().map(|one| one.last_chunk::<BYTES>().map_or_else(Vec::new, addresses::read)).collect();
        let numbers = all.iter().map(|one| u32::from_le_bytes([one[1], one[2], one[3], one[4]])).collect();
        let watcher = group_watch::watcher(&parameters, numbers);
        let common = Common { parameters, number, key, addresses };
        Client::start(self.me, common, question(), socket, watcher).map_err(|_| ERR_OTHER)
    }

    /// # Safety
    /// As [`Processes::join`].
    unsafe fn told(&self, info: Handle) -> Result<Told, c_int> {
        let calls = &self.calls;
        let mut bytes = [0_u8; TOLD];
        if self.me == 0 {
            // SAFETY: as required of the caller.
            let parameters = unsafe { calls.parameters(info) };
            let random = platform::random::bytes::<40>().ok();
            let class = match (&parameters, random) {
                (Err(class), _) => *class,
                (Ok(_), None) => ERR_OTHER,
                (Ok(_), Some(_)) => 0,
            };
            let random = random.unwrap_or([0; 40]);
            let (number, key) = random.split_at(8);
            let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
            let told: Told = (class, parameters.unwrap_or_default(), number, key.try_into().unwrap_or_default());
            postcard::to_slice(&told, &mut bytes).map_err(|_| ERR_OTHER)?;
        }
        // SAFETY: as required of the caller; room for the bytes.
        success(unsafe { (calls.bcast)(bytes.as_mut_ptr().cast(), TOLD as c_int, calls.byte, 0, self.comm) })?;
        postcard::take_from_bytes(&bytes).map(|(told, _)| told).map_err(|_| ERR_ARG)
    }

    /// All processes that MPI knows to be dead, if there are more than at the last look.
    ///
    /// # Safety
    /// The communicator was not freed.
    pub unsafe fn look_for_dead(&mut self, mpi: &OpenMpi) -> Vec<u32> {
        let calls = &self.calls;
        let (mut count, mut members) = (0, std::ptr::null_mut());
        // SAFETY: as required of the caller; groups that are freed here, and room for the ranks.
        unsafe {
            let mut dead = mpi.failed_members(self.comm);
            (calls.group_size)(dead, &mut count);
            let mut found = Vec::new();
            if count > self.dead {
                self.dead = count;
                let ranks: Vec<c_int> = (0..count).collect();
                found = vec![-1; count as usize];
                (calls.group)(self.comm, &mut members);
                (calls.translate)(dead, count, ranks.as_ptr(), members, found.as_mut_ptr());
                (calls.group_free)(&mut members);
            }
            (calls.group_free)(&mut dead);
            found.into_iter().filter_map(|rank| u32::try_from(rank).ok()).collect()
        }
    }
}
