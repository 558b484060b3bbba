//! Reliable connections, from one queue pair to another.

use std::ffi::c_int;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use super::layout::*;
use super::library::{Device, done, made};
use super::port::Port;

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The peer's device has acknowledged this write, and with it all earlier ones.
    Done {
        /// The number passed to [`Pair::write`].
        number: u64,
    },
    /// The peer's device does not permit it: the key or the address is wrong. The pair is unusable.
    Refused,
    /// The peer's device does not answer. The pair is unusable.
    Unanswered,
    /// Any other error, with its number in `enum ibv_wc_status`. The pair is unusable.
    Failed(u32),
}

/// The place of a connection's other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    /// Address of its port.
    pub gid: [u8; 16],
    /// Number of its queue pair.
    pub pair: u32,
}

/// A protection domain: memory registered in it can be accessed through its queue pairs only.
struct Domain {
    domain: NonNull<ibv_pd>,
    device: Arc<Device>,
}

// SAFETY: objects of libibverbs are not thread-local, and the pointer is never changed.
unsafe impl Send for Domain {}

impl Domain {
    fn new(device: &Arc<Device>) -> io::Result<Self> {
        // SAFETY: the context is open as long as `device` exists.
        let domain = made(unsafe { (device.functions.ibv_alloc_pd)(device.context.as_ptr()) })?;
        Ok(Self { domain, device: Arc::clone(device) })
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: it exists, and its objects are gone: a pair is dropped before its domain, a slot before its pair.
        unsafe { (self.device.functions.ibv_dealloc_pd)(self.domain.as_ptr()) };
    }
}

/// The queue of the device's reports about writes.
struct Completions {
    queue: NonNull<ibv_cq>,
    device: Arc<Device>,
}

// SAFETY: as for `Domain`.
unsafe impl Send for Completions {}

impl Completions {
    fn new(device: &Arc<Device>, depth: u32) -> io::Result<Self> {
        let (room, none) = (c_int::try_from(depth).unwrap_or(c_int::MAX), ptr::null_mut());
        // SAFETY: the context is open as long as `device` exists; there is no event channel.
        let queue = made(unsafe { (device.functions.ibv_create_cq)(device.context.as_ptr(), room, none, none, 0) })?;
        Ok(Self { queue, device: Arc::clone(device) })
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: it exists, and its pair is dropped first.
        unsafe { (self.device.functions.ibv_destroy_cq)(self.queue.as_ptr()) };
    }
}

/// One end of a reliable connection, in its own protection domain.
///
/// The fields are dropped in their order; the pair itself is destroyed before them.
pub struct Pair {
    pair: NonNull<ibv_qp>,
    completions: Completions,
    domain: Domain,
    device: Arc<Device>,
    port: Port,
}

// SAFETY: as for `Domain`.
unsafe impl Send for Pair {}

impl Pair {
    /// Makes an end at this port with room for `depth` pending writes. The peer can write only memory registered for
    /// this end ([`Pair::register`]).
    ///
    /// # Errors
    /// If the device has no room, or refuses.
    pub fn new(device: &Arc<Device>, port: &Port, depth: u32) -> io::Result<Self> {
        let (domain, completions) = (Domain::new(device)?, Completions::new(device, depth)?);
        let mut wish = ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: completions.queue.as_ptr(),
            recv_cq: completions.queue.as_ptr(),
            srq: ptr::null_mut(),
            cap: ibv_qp_cap {
                max_send_wr: depth,
                max_recv_wr: 1,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: size_of::<u64>() as u32,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 0,
        };
        // SAFETY: domain and completion queue exist; the struct outlives the call.
        let pair = made(unsafe { (device.functions.ibv_create_qp)(domain.domain.as_ptr(), &raw mut wish) })?;
        let this = Self { pair, completions, domain, device: Arc::clone(device), port: port.clone() };
        this.modify(
            ibv_qp_attr {
                qp_state: IBV_QPS_INIT,
                port_num: port.number,
                qp_access_flags: IBV_ACCESS_REMOTE_WRITE.unsigned_abs(),
                ..ibv_qp_attr::default()
            },
            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        )?;
        Ok(this)
    }

    /// Permits the peer to write this memory.
    ///
    /// # Safety
    /// The memory stays valid, and all access to it is atomic, until the region has been released with
    /// [`Pair::unregister`], before this pair is dropped.
    ///
    /// # Errors
    /// If the device has no room left, or this process may not lock memory (`ulimit -l`).
    pub unsafe fn register(&self, memory: NonNull<u8>, bytes: usize) -> io::Result<NonNull<ibv_mr>> {
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        let (register, domain) = (self.device.functions.ibv_reg_mr, self.domain.domain.as_ptr());
        // SAFETY: the domain exists; otherwise as required of the caller.
        made(unsafe { register(domain, memory.as_ptr().cast(), bytes, access) })
    }

    /// Releases the region of [`Pair::register`]; false if the device keeps it.
    ///
    /// # Safety
    /// The region came from this pair and is not used any more.
    pub unsafe fn unregister(&self, region: NonNull<ibv_mr>) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (self.device.functions.ibv_dereg_mr)(region.as_ptr()) == 0 }
    }

    /// The place of this end, for the other one.
    #[must_use]
    pub fn place(&self) -> Far {
        // SAFETY: the pair exists; its number never changes.
        Far { gid: self.port.gid, pair: unsafe { self.pair.as_ref() }.qp_num }
    }

    /// Name of the device.
    #[must_use]
    pub fn device_name(&self) -> &str {
        self.device.name()
    }

    /// Accepts the peer's writes from now on, numbered from `psn`.
    ///
    /// # Errors
    /// If there is no route to the peer from this port, or the pair was connected before.
    pub fn receive_from(&self, far: Far, psn: u32) -> io::Result<()> {
        let grh = ibv_global_route {
            dgid: ibv_gid { raw: far.gid },
            sgid_index: self.port.gid_index,
            hop_limit: 64,
            ..ibv_global_route::default()
        };
        let ah_attr = ibv_ah_attr { grh, is_global: 1, port_num: self.port.number, ..ibv_ah_attr::default() };
        self.modify(
            ibv_qp_attr {
                qp_state: IBV_QPS_RTR,
                // The minimum: a write has eight bytes.
                path_mtu: IBV_MTU_256,
                rq_psn: psn,
                dest_qp_num: far.pair,
                ah_attr,
                max_dest_rd_atomic: 1,
                min_rnr_timer: 12,
                ..ibv_qp_attr::default()
            },
            IBV_QP_STATE
                | IBV_QP_AV
                | IBV_QP_PATH_MTU
                | IBV_QP_RQ_PSN
                | IBV_QP_DEST_QPN
                | IBV_QP_MIN_RNR_TIMER
                | IBV_QP_MAX_DEST_RD_ATOMIC,
        )
    }

    /// After [`Pair::receive_from`]: sends writes to the peer from now on, numbered from `psn`. An unacknowledged one
    /// is repeated `repetitions` (at most 7) times, each after 4.096 µs · 2^`patience`.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn send(&self, psn: u32, patience: u8, repetitions: u8) -> io::Result<()> {
        self.modify(
            ibv_qp_attr {
                qp_state: IBV_QPS_RTS,
                sq_psn: psn,
                timeout: patience,
                retry_cnt: repetitions,
                rnr_retry: repetitions,
                max_rd_atomic: 1,
                ..ibv_qp_attr::default()
            },
            IBV_QP_STATE
                | IBV_QP_SQ_PSN
                | IBV_QP_TIMEOUT
                | IBV_QP_RETRY_CNT
                | IBV_QP_RNR_RETRY
                | IBV_QP_MAX_QP_RD_ATOMIC,
        )
    }

    fn modify(&self, mut wish: ibv_qp_attr, mask: c_int) -> io::Result<()> {
        // SAFETY: the pair exists; the struct outlives the call; fields outside the mask are not read.
        done(unsafe { (self.device.functions.ibv_modify_qp)(self.pair.as_ptr(), &raw mut wish, mask) })
    }

    /// Writes a value to an address of the peer. The completion of a `signalled` write is reported, and the failure of
    /// any write. The caller keeps fewer writes pending than the pair has room for.
    ///
    /// # Errors
    /// If the pair is not connected or has no room.
    pub fn write(&self, value: u64, address: u64, key: u32, number: u64, signalled: bool) -> io::Result<()> {
        let mut part = ibv_sge { addr: (&raw const value).addr() as u64, length: size_of::<u64>() as u32, lkey: 0 };
        let mut request = ibv_send_wr {
            wr_id: number,
            next: ptr::null_mut(),
            sg_list: &raw mut part,
            num_sge: 1,
            opcode: IBV_WR_RDMA_WRITE,
            send_flags: IBV_SEND_INLINE | if signalled { IBV_SEND_SIGNALED } else { 0 },
            imm_data: 0,
            remote_addr: address,
            rkey: key,
            rest: [0; 19],
        };
        let mut refused = ptr::null_mut();
        // SAFETY: the context of an existing pair is its device's, which is open.
        let post = unsafe { self.device.context.as_ref() }.ops.post_send;
        let post = post.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        // SAFETY: the pair exists; request, part and value outlive the call, and inline data is not read after it.
        done(unsafe { post(self.pair.as_ptr(), &raw mut request, &raw mut refused) })
    }

    /// The result of the next reported write, if there is one.
    ///
    /// # Errors
    /// If the device is broken.
    pub fn poll(&self) -> io::Result<Option<Completion>> {
        let mut report = ibv_wc::default();
        // SAFETY: as in `write`.
        let poll = unsafe { self.device.context.as_ref() }.ops.poll_cq;
        let poll = poll.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        // SAFETY: the queue exists; there is room for the one requested report.
        match unsafe { poll(self.completions.queue.as_ptr(), 1, &raw mut report) } {
            0 => Ok(None),
            1 => Ok(Some(match report.status {
                IBV_WC_SUCCESS => Completion::Done { number: report.wr_id },
                IBV_WC_REM_ACCESS_ERR => Completion::Refused,
                IBV_WC_RETRY_EXC_ERR => Completion::Unanswered,
                other => Completion::Failed(other),
            })),
            _ => Err(io::Error::other("the completion queue cannot be read")),
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: it exists, and is not used any more.
        unsafe { (self.device.functions.ibv_destroy_qp)(self.pair.as_ptr()) };
    }
}
