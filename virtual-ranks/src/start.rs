//! The processes of a job at the end of `MPI_Init`, and how the layer begins.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, OnceLock};

use event_log::determinant::Rank;
use mpi_entry::entries::install;
use mpi_entry::functions::Function;
use openmpi_internals::communicator::Internals;
use openmpi_internals::error_class::ERR_UNSUPPORTED;
use openmpi_internals::group::of_first_job;
use openmpi_internals::loaded::Library;
use openmpi_internals::object::Object;
use openmpi_internals::variables::{
    OMPI_MPI_BYTE, OMPI_MPI_COMM_NULL, OMPI_MPI_COMM_SELF, OMPI_MPI_COMM_WORLD, OMPI_MPI_DATATYPE_NULL,
    OMPI_MPI_ERRORS_RETURN, OMPI_MPI_PACKED,
};
use platform::say::say;

use crate::carrier::Carrier;
use crate::comms::{Comm, Comms, NUMBERS};
use crate::data::{Data, ok};
use crate::layer::{self, Layer};
use crate::processor_names::Name;
use crate::protocol::Protocol;
use crate::requests::Requests;
use crate::stock::Stock;
use crate::{entries, processor_names};

/// The processes of a job, before the program knows of its ranks.
pub struct Processes {
    /// Open MPI's functions.
    pub stock: &'static Stock,
    /// How many they are.
    pub count: u32,
    /// The number of this one.
    pub process: u32,
    /// The names of the nodes of all.
    pub nodes: Vec<Name>,
    /// A communicator of all processes that is nobody else's and whose errors return.
    pub everywhere: Object,
    /// `MPI_BYTE`
    pub byte: Object,
    library: Library,
    mpi: &'static Internals,
    world: Object,
    alone: Object,
    own: Object,
    packed: Object,
    null: Object,
    null_type: Object,
    errors_return: Object,
    /// Whether this process was spawned, and is not in the first job of this mpirun.
    is_spawned: bool,
}

/// What the program sees.
pub struct Program {
    /// The rank that this process is.
    pub rank: Rank,
    /// How many ranks there are.
    pub ranks: u32,
    /// The names of their nodes.
    pub nodes: Vec<Name>,
}

/// A sentence about an error class.
pub fn failed(code: c_int) -> String {
    format!("a function of MPI has failed with the error class {code}")
}

impl Processes {
    /// Those of this job. All take part. `check` gets the number of processes and that of this one before any is waited
    /// for: what it refuses it has to refuse at all.
    ///
    /// # Errors
    /// Why they cannot be found, or what `check` says.
    pub fn gather<T>(check: impl FnOnce(u32, u32) -> Result<T, String>) -> Result<(Self, T), String> {
        let mut found = Self::find()?;
        let (mut count, mut process) = (0, 0);
        // SAFETY: room for the answers.
        unsafe {
            (found.stock.comm_size)(found.world, &mut count);
            (found.stock.comm_rank)(found.world, &mut process);
        }
        (found.count, found.process) = (count as u32, process as u32);
        let checked = check(found.count, found.process)?;
        found.everywhere = found.quiet(found.world)?;
        found.nodes =
            processor_names::gather(found.stock, found.everywhere, found.byte, found.count).map_err(failed)?;
        Ok((found, checked))
    }

    /// Those of a job to which this process was spawned, as `process`. It alone takes part.
    ///
    /// # Errors
    /// Why this process cannot be one of them.
    pub fn join(nodes: Vec<Name>, process: u32) -> Result<Self, String> {
        let mut found = Self::find()?;
        (found.count, found.process, found.nodes) = (nodes.len() as u32, process, nodes);
        found.everywhere = found.quiet(found.alone)?;
        found.is_spawned = true;
        Ok(found)
    }

    fn find() -> Result<Self, String> {
        static STOCK: OnceLock<Stock> = OnceLock::new();
        let library = Library::loaded().ok_or("libmpi is not loaded")?;
        let missing = |name: &str| format!("this Open MPI has no {name}");
        let mpi = Internals::fitting().ok_or("the structs of this Open MPI are not those of 5.0")?;
        let found = Stock::find(&library).map_err(|name| missing(&name.to_string_lossy()))?;
        let stock = STOCK.get_or_init(|| found);
        let known = |variable| library.predefined(variable).ok_or_else(|| missing("predefined handle"));
        let (world, alone) = (known(OMPI_MPI_COMM_WORLD)?, known(OMPI_MPI_COMM_SELF)?);
        let (byte, packed) = (known(OMPI_MPI_BYTE)?, known(OMPI_MPI_PACKED)?);
        let (null, null_type) = (known(OMPI_MPI_COMM_NULL)?, known(OMPI_MPI_DATATYPE_NULL)?);
        let errors_return = known(OMPI_MPI_ERRORS_RETURN)?;
        let mut found = Self {
            stock,
            count: 0,
            process: 0,
            nodes: Vec::new(),
            everywhere: null,
            byte,
            library,
            mpi,
            world,
            alone,
            own: null,
            packed,
            null,
            null_type,
            errors_return,
            is_spawned: false,
        };
        found.own = found.quiet(alone)?;
        Ok(found)
    }

    /// A copy of a communicator, whose errors return. All its processes take part.
    fn quiet(&self, comm: Object) -> Result<Object, String> {
        let mut copy = std::ptr::null_mut();
        // SAFETY: communicators.
        unsafe {
            ok((self.stock.comm_dup)(comm, &mut copy)).map_err(failed)?;
            ok((self.stock.comm_set_errhandler)(copy, self.errors_return)).map_err(failed)?;
        }
        Ok(copy)
    }

    /// A group of the processes with which the job has begun, the first `ranks` of them.
    fn base(&self, ranks: u32) -> Result<Object, String> {
        let (mut group, mut base) = (std::ptr::null_mut(), std::ptr::null_mut());
        let first: Vec<c_int> = (0..ranks as c_int).collect();
        // SAFETY: a group of at least as many members, or one that another one is made like.
        unsafe {
            ok((self.stock.comm_group)(self.world, &mut group)).map_err(failed)?;
            if self.is_spawned {
                base = of_first_job(group, ranks).ok_or("groups of this Open MPI are not those of 5.0")?;
            } else {
                ok((self.stock.group_incl)(group, ranks as c_int, first.as_ptr(), &mut base)).map_err(failed)?;
            }
            (self.stock.group_free)(&mut group);
        }
        Ok(base)
    }

    /// Carries messages between them.
    ///
    /// # Errors
    /// Why there is no carrier.
    pub fn carrier(&self) -> Result<Carrier, String> {
        Carrier::new(self.stock, self.everywhere, self.byte).map_err(failed)
    }

    /// The same number of bytes of each. All take part.
    ///
    /// # Errors
    /// The error class of MPI.
    pub fn exchange(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, c_int> {
        let mut all = vec![0_u8; own.len() * self.count as usize];
        let (from, bytes, byte) = (own.as_ptr().cast(), own.len() as c_int, self.byte);
        // SAFETY: room for the bytes of all.
        ok(unsafe {
            (self.stock.allgather)(from, bytes, byte, all.as_mut_ptr().cast(), bytes, byte, self.everywhere)
        })?;
        Ok(all.chunks_exact(own.len()).map(<[u8]>::to_vec).collect())
    }

    /// Copies data.
    pub fn data(&self) -> Data {
        Data::new(self.stock, self.own, self.packed)
    }

    /// Puts the layer in front of MPI: from now on the program sees its ranks. `name` is that of the protocol, for
    /// people.
    ///
    /// # Errors
    /// Why that cannot be.
    pub fn stand_behind(
        self,
        program: Program,
        protocol: Arc<Mutex<dyn Protocol>>,
        name: &'static str,
    ) -> Result<(), String> {
        let Program { rank, ranks, nodes } = program;
        let base = self.base(ranks)?;
        let Self { stock, world, alone, own, null, byte, null_type, .. } = self;
        let mut comms = Comms::new(rank, ranks);
        comms.add(Comm::new(world, 0, (0..ranks).collect(), rank as usize, None));
        comms.add(Comm::new(alone, NUMBERS, vec![rank], 0, None));
        layer::set(Layer {
            stock,
            world,
            own,
            base,
            null,
            byte,
            null_type,
            rank,
            nodes,
            protocol,
            name,
            comms: Mutex::new(comms),
            requests: Mutex::new(Requests::new(self.mpi)),
            operations: Mutex::default(),
        });
        // SAFETY: each handler has the type of its function in mpi.h, and stays for ever.
        unsafe { install(&self.library, &entries::all(), refuse) }.map_err(|failure| failure.to_string())
    }
}

/// A function that the layer does not cover would see processes where the program means ranks.
fn refuse(function: &'static Function) -> c_int {
    let name = function.names[1].to_string_lossy();
    layer::answer_plainly(|layer| {
        say(&format!("ringwatch: {} does not cover {name}: it fails with MPI_ERR_UNSUPPORTED_OPERATION", layer.name));
        Err(ERR_UNSUPPORTED)
    })
}
