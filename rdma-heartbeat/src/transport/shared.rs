//! Raises flags in memory shared by two processes of one machine.
//!
//! The emitter makes the memory and passes its descriptor; the observer maps it read-only, which the kernel enforces.
//! The two connect through an abstract socket with a name that the kernel chooses, and that the observer offers; each
//! serves processes of its own user only. The first packet carries the descriptor and the number that both ends derive
//! from the slot's key, so that no other memory is accepted as the emitter's.
//!
//! The connection stays open. The only data on it is one byte from the observer, once it has mapped the memory. The
//! emitter checks the connection with every flag, so it knows whether a reader exists.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind,
    connect, getsockname, getsockopt, listen, recv, recvmsg, send, sendmsg, socket, sockopt,
};
use nix::unistd::{ftruncate, getuid};

use super::flag::ORDERING;
use super::means::{Inlet, Means, Outlet};

/// A page, the unit of sharing; the flag is its first word.
const BYTES: NonZeroUsize = NonZeroUsize::new(4096).expect("a page is not empty");
/// Length of the socket's queue: the emitter, and unrelated callers.
const CALLERS: i32 = 4;

/// Memory of this machine, as a way to raise flags.
pub struct SharedMemory;

impl Means for SharedMemory {
    fn name(&self) -> &'static str {
        "shared memory"
    }

    fn open(&mut self, _: SocketAddr, first_packet: u32) -> Result<Box<dyn Inlet>, String> {
        let listener = listener().map_err(|error| format!("no local socket can be opened: {error}"))?;
        Ok(Box::new(SharedInlet { listener, first_packet, memory: None }))
    }

    fn attach(&mut self, _: SocketAddr, offer: &[u8], first_packet: u32) -> Result<Box<dyn Outlet>, String> {
        let outlet = SharedOutlet::new(offer, first_packet);
        outlet.map(|outlet| Box::new(outlet) as Box<dyn Outlet>).map_err(|error| {
            format!("the other process cannot be reached over a local socket, so it is on another machine: {error}")
        })
    }
}

/// One word that two processes have mapped.
struct Memory(NonNull<AtomicU64>);

// SAFETY: all access to the mapping is atomic, and nothing in it is thread-local.
unsafe impl Send for Memory {}

impl Memory {
    fn map(file: &OwnedFd, access: ProtFlags) -> io::Result<Self> {
        // SAFETY: a fresh mapping; the caller has seen that the file has this size and cannot shrink.
        let base = unsafe { mmap(None, BYTES, access, MapFlags::MAP_SHARED, file, 0)? };
        Ok(Self(base.cast()))
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: a mapping begins at a page, lives until this value is dropped, and is only used as this atomic.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no reference into it outlives this value.
        let _ = unsafe { munmap(self.0.cast(), BYTES.get()) };
    }
}

struct SharedInlet {
    listener: OwnedFd,
    first_packet: u32,
    /// And the connection, whose end would tell the emitter that no process reads the flags any more.
    memory: Option<(Memory, OwnedFd)>,
}

impl Inlet for SharedInlet {
    fn offer(&self) -> Vec<u8> {
        let address = getsockname::<UnixAddr>(self.listener.as_raw_fd()).ok();
        address.and_then(|address| address.as_abstract().map(<[u8]>::to_vec)).unwrap_or_default()
    }

    fn connect(&mut self, _: &[u8]) -> Result<(), String> {
        loop {
            let caller = accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)
                .map_err(|error| format!("the emitter has not called at the local socket: {error}"))?;
            // SAFETY: a new descriptor without another owner.
            let caller = unsafe { OwnedFd::from_raw_fd(caller) };
            if let Ok(memory) = take_memory(&caller, self.first_packet) {
                self.memory = Some((memory, caller));
                return Ok(());
            }
        }
    }

    fn load(&self) -> u64 {
        self.memory.as_ref().map_or(0, |(memory, _)| memory.word().load(ORDERING))
    }
}

struct SharedOutlet {
    memory: Memory,
    connection: OwnedFd,
    is_mapped: bool,
}

impl SharedOutlet {
    fn new(name: &[u8], first_packet: u32) -> io::Result<Self> {
        let file = memfd_create(c"ringwatch-flag", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        ftruncate(&file, BYTES.get() as i64)?;
        let memory = Memory::map(&file, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        // The size is sealed under the other's mapping, and only this mapping can be written.
        let seals =
            [SealFlag::F_SEAL_SHRINK, SealFlag::F_SEAL_GROW, SealFlag::F_SEAL_FUTURE_WRITE, SealFlag::F_SEAL_SEAL];
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals.into_iter().collect()))?;
        let connection = local_socket()?;
        connect(connection.as_raw_fd(), &UnixAddr::new_abstract(name)?)?;
        if !is_own(&connection) {
            return Err(Errno::EPERM.into());
        }
        let rights = [file.as_raw_fd()];
        let message = first_packet.to_le_bytes();
        sendmsg::<()>(
            connection.as_raw_fd(),
            &[IoSlice::new(&message)],
            &[ControlMessage::ScmRights(&rights)],
            MsgFlags::MSG_NOSIGNAL,
            None,
        )?;
        Ok(Self { memory, connection, is_mapped: false })
    }
}

impl Outlet for SharedOutlet {
    fn answer(&self) -> Vec<u8> {
        Vec::new()
    }

    fn store(&mut self, value: u64) -> Result<bool, String> {
        match recv(self.connection.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT) {
            Ok(1..) => self.is_mapped = true,
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Ok(0) | Err(_) => return Err("the other process has closed the memory".into()),
        }
        self.memory.word().store(value, ORDERING);
        Ok(self.is_mapped)
    }
}

fn local_socket() -> nix::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)
}

fn listener() -> nix::Result<OwnedFd> {
    let listener = local_socket()?;
    // Without a name: the kernel chooses one.
    bind(listener.as_raw_fd(), &UnixAddr::new_unnamed())?;
    listen(&listener, Backlog::new(CALLERS)?)?;
    Ok(listener)
}

fn is_own(connection: &OwnedFd) -> bool {
    getsockopt(connection, sockopt::PeerCredentials).is_ok_and(|peer| peer.uid() == getuid().as_raw())
}

/// The memory that a caller passes, if it is the emitter.
fn take_memory(caller: &OwnedFd, first_packet: u32) -> io::Result<Memory> {
    // Descriptors of another user are not received.
    if !is_own(caller) {
        return Err(Errno::EPERM.into());
    }
    let (mut number, mut room) = ([0; 4], nix::cmsg_space!([RawFd; 1]));
    let mut parts = [IoSliceMut::new(&mut number)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let packet = recvmsg::<()>(caller.as_raw_fd(), &mut parts, Some(&mut room), flags)?;
    let files = packet.cmsgs()?.flat_map(|message| match message {
        ControlMessageOwned::ScmRights(files) => files,
        _ => Vec::new(),
    });
    // SAFETY: the kernel made the descriptors for this process just now; each is taken once.
    let mut files: Vec<_> = files.map(|file| unsafe { OwnedFd::from_raw_fd(file) }).collect();
    let file = files.pop().ok_or(Errno::EBADMSG)?;
    if packet.bytes != number.len() || u32::from_le_bytes(number) != first_packet {
        return Err(Errno::EPERM.into());
    }
    let seals = SealFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GET_SEALS)?);
    let size = nix::sys::stat::fstat(file.as_fd())?.st_size;
    if !seals.contains(SealFlag::F_SEAL_SHRINK) || size != BYTES.get() as i64 {
        return Err(Errno::EINVAL.into());
    }
    let memory = Memory::map(&file, ProtFlags::PROT_READ)?;
    send(caller.as_raw_fd(), &[1], MsgFlags::MSG_NOSIGNAL)?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use platform::testing::as_stranger;

    use super::*;

    const PEER: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

    fn ends(number: u32) -> (Box<dyn Inlet>, Box<dyn Outlet>) {
        let inlet = SharedMemory.open(PEER.into(), 5).unwrap();
        let outlet = SharedMemory.attach(PEER.into(), &inlet.offer(), number).unwrap();
        (inlet, outlet)
    }

    #[test]
    fn what_is_written_is_read_and_acknowledged_once_it_can_be() {
        let (mut inlet, mut outlet) = ends(5);
        assert_eq!((outlet.store(1), inlet.load()), (Ok(false), 0));
        inlet.connect(&outlet.answer()).unwrap();
        assert_eq!(inlet.load(), 1, "also what was written before");
        for value in [2, u64::MAX, 3] {
            assert_eq!((outlet.store(value), inlet.load()), (Ok(true), value));
        }
    }

    #[test]
    fn an_end_that_is_gone_is_noticed_with_the_next_flag() {
        let (mut inlet, mut outlet) = ends(5);
        inlet.connect(&[]).unwrap();
        assert_eq!(outlet.store(7), Ok(true));
        drop(inlet);
        assert!(outlet.store(8).is_err());
        let (mut inlet, mut outlet) = ends(5);
        inlet.connect(&[]).unwrap();
        outlet.store(9).unwrap();
        drop(outlet);
        assert_eq!(inlet.load(), 9, "the memory lives on");
        assert!(SharedMemory.attach(PEER.into(), b"nobody", 5).is_err());
    }

    #[test]
    fn memory_of_a_stranger_is_not_taken() {
        let (mut inlet, mut outlet) = ends(6);
        assert!(inlet.connect(&[]).is_err());
        assert!(outlet.store(1).is_err() && inlet.load() == 0);
        // It does not prevent the emitter's memory from being accepted.
        let _stranger = SharedMemory.attach(PEER.into(), &inlet.offer(), 6).unwrap();
        let mut outlet = SharedMemory.attach(PEER.into(), &inlet.offer(), 5).unwrap();
        inlet.connect(&[]).unwrap();
        assert_eq!((outlet.store(4), inlet.load()), (Ok(true), 4));
    }

    #[test]
    fn memory_of_another_user_is_not_taken_although_it_knows_the_number() {
        let mut inlet = SharedMemory.open(PEER.into(), 5).unwrap();
        let offer = inlet.offer();
        let call = || {
            let file = memfd_create(c"theirs", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
            ftruncate(&file, BYTES.get() as i64).unwrap();
            fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
            hand_over(&offer, &file)
        };
        let Some(_connection) = as_stranger(call) else { return };
        assert!(inlet.connect(&[]).is_err());
        let mut outlet = SharedMemory.attach(PEER.into(), &inlet.offer(), 5).unwrap();
        inlet.connect(&[]).unwrap();
        assert_eq!((outlet.store(4), inlet.load()), (Ok(true), 4));
    }

    /// Calls an inlet with the right number and this memory.
    fn hand_over(offer: &[u8], file: &OwnedFd) -> OwnedFd {
        let connection = local_socket().unwrap();
        connect(connection.as_raw_fd(), &UnixAddr::new_abstract(offer).unwrap()).unwrap();
        let (number, rights) = (5_u32.to_le_bytes(), [file.as_raw_fd()]);
        let rights = [ControlMessage::ScmRights(&rights)];
        sendmsg::<()>(connection.as_raw_fd(), &[IoSlice::new(&number)], &rights, MsgFlags::empty(), None).unwrap();
        connection
    }

    #[test]
    fn memory_that_could_shrink_is_not_taken() {
        for (seals, bytes) in [(SealFlag::empty(), 4096), (SealFlag::F_SEAL_SHRINK, 8)] {
            let mut inlet = SharedMemory.open(PEER.into(), 5).unwrap();
            let file = memfd_create(c"small", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
            ftruncate(&file, bytes).unwrap();
            fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).unwrap();
            let _connection = hand_over(&inlet.offer(), &file);
            assert!(inlet.connect(&[]).is_err(), "{bytes}");
        }
    }
}
