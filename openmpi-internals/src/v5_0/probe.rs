//! Whether the structs of the Open MPI in this process are where [`layout`](super::layout) has them: the only place
//! where this is asked.
//!
//! What is asked of an object is read through `/proc/self/mem`, where a wrong address is an error and no crash. A
//! library of another release, or that was built otherwise, is refused then, and what needs the structs is off.
//!
//! | question | what is compared |
//! |---|---|
//! | [`has_communicators`] | the functions in the table of `MPI_COMM_WORLD` with those of the modules that stand beside them; its two groups, which are one; the rank, with what MPI says |
//! | [`has_flags`] | the mark of a communicator that `MPI_Init` has made |
//! | [`has_groups`] | size, rank and form of the group, with what MPI says; and the name of this process in its list |
//! | [`has_size`] | the size of objects, with what their class says |
//! | [`is_transport`] | framework, version and name of a component |

use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::layout::{btl_component, coll, coll_module, communicator, group, proc};
use crate::object::{Class, Object};

/// The memory of this process.
pub struct Memory(File);

impl Memory {
    /// `None` where the kernel does not show it.
    pub fn open() -> Option<Self> {
        File::open("/proc/self/mem").ok().map(Self)
    }

    /// A word at an address; `None` if nothing is there.
    pub fn word(&self, address: usize) -> Option<usize> {
        let mut bytes = [0; size_of::<usize>()];
        self.0.read_exact_at(&mut bytes, address as u64).ok().map(|()| usize::from_ne_bytes(bytes))
    }

    /// The lower half of a word.
    fn half(&self, address: usize) -> Option<u32> {
        self.word(address).map(|word| word as u32)
    }
}

/// Whether communicators are as in this release; `rank`: what MPI says of `MPI_COMM_WORLD`. After `MPI_Init`.
pub fn has_communicators(memory: &Memory, world: Object, rank: c_int) -> bool {
    /// Bytes of a word.
    const WORD: usize = size_of::<usize>();
    let world = world as usize;
    let same_functions = || {
        let table = memory.word(world + communicator::C_COLL)?;
        for slot in 0..coll::NEIGHBOR {
            let pair = table + slot * 2 * WORD;
            let (function, module) = (memory.word(pair)?, memory.word(pair + WORD)?);
            if function == 0 || memory.word(module + coll_module::COLL_ALLGATHER + slot * WORD)? != function {
                return None;
            }
        }
        Some(())
    };
    let groups = [communicator::C_LOCAL_GROUP, communicator::C_REMOTE_GROUP].map(|place| memory.word(world + place));
    let has_one_group = groups[0].is_some_and(|group| group != 0) && groups[0] == groups[1];
    same_functions().is_some() && has_one_group && memory.half(world + communicator::C_MY_RANK) == Some(rank as u32)
}

/// Whether communicators have their flags where they are looked for; `rank` as of [`has_communicators`].
pub fn has_flags(memory: &Memory, world: Object, rank: c_int) -> bool {
    let world = world as usize;
    let flags = memory.half(world + communicator::C_FLAGS).unwrap_or(0);
    memory.half(world + communicator::C_MY_RANK) == Some(rank as u32) && flags & communicator::OMPI_COMM_INTRINSIC != 0
}

/// Whether groups are as in this release; `size` and `rank`: what MPI says of `MPI_COMM_WORLD`.
pub fn has_groups(memory: &Memory, world: Object, size: usize, rank: usize) -> bool {
    let fits = || {
        let all = memory.word(world as usize + communicator::C_LOCAL_GROUP)?;
        let is_group = memory.half(all + group::GRP_PROC_COUNT)? as usize == size
            && memory.half(all + group::GRP_MY_RANK)? as usize == rank
            && memory.half(all + group::GRP_FLAGS)? & group::OMPI_GROUP_DENSE != 0;
        let own = memory.word(memory.word(all + group::GRP_PROC_POINTERS)? + size_of::<usize>() * rank)?;
        // An odd word is the name of a process without a process object; this process has one.
        Some(is_group && own & 1 == 0 && memory.word(own + proc::PROC_NAME)? >> 32 == rank)
    };
    fits().unwrap_or(false)
}

/// Whether objects of a class are as large as in this release.
///
/// # Safety
/// A class of Open MPI.
pub unsafe fn has_size(class: *const Class, size: usize) -> bool {
    // SAFETY: as required of the caller.
    unsafe { (*class).size == size }
}

/// Whether a component is this transport, as in this release.
///
/// # Safety
/// A component of Open MPI.
pub unsafe fn is_transport(component: Object, name: &CStr) -> bool {
    /// Of the framework `btl`.
    const MAJOR_VERSION: c_int = 3;
    // SAFETY: as required of the caller; a component begins with its names, which are terminated.
    unsafe {
        let text = |place| CStr::from_ptr(component.byte_add(place).cast::<c_char>());
        text(btl_component::MCA_TYPE_NAME) == c"btl"
            && component.byte_add(btl_component::MCA_TYPE_MAJOR_VERSION).cast::<c_int>().read() == MAJOR_VERSION
            && text(btl_component::MCA_COMPONENT_NAME) == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much memory as the objects of a world of one process take, laid out as in this release.
    struct World {
        comm: Vec<usize>,
        group: Vec<usize>,
        list: Vec<usize>,
        process: Vec<usize>,
        table: Vec<usize>,
        module: Vec<usize>,
    }

    const SIZE: usize = 3;
    const RANK: usize = 2;

    fn address(words: &[usize]) -> usize {
        words.as_ptr() as usize
    }

    fn set_half(words: &mut [usize], place: usize, value: u32) {
        let (word, shift) = (place / 8, place % 8 * 8);
        words[word] = words[word] & !(0xffff_ffff << shift) | (value as usize) << shift;
    }

    fn world() -> World {
        let words = |bytes: usize| vec![0_usize; bytes / 8 + 1];
        let mut all = World {
            comm: words(communicator::SIZE),
            group: words(0x60),
            list: words(8 * SIZE),
            process: words(proc::SIZE),
            table: words(16 * (coll::IAGREE + 1)),
            module: words(coll_module::COLL_ALLGATHER + 8 * (coll::IAGREE + 1)),
        };
        for slot in 0..coll::NEIGHBOR {
            all.module[coll_module::COLL_ALLGATHER / 8 + slot] = 1000 + slot;
            (all.table[2 * slot], all.table[2 * slot + 1]) = (1000 + slot, address(&all.module));
        }
        all.comm[communicator::C_COLL / 8] = address(&all.table);
        all.comm[communicator::C_LOCAL_GROUP / 8] = address(&all.group);
        all.comm[communicator::C_REMOTE_GROUP / 8] = address(&all.group);
        set_half(&mut all.comm, communicator::C_MY_RANK, RANK as u32);
        set_half(&mut all.comm, communicator::C_FLAGS, communicator::OMPI_COMM_INTRINSIC);
        set_half(&mut all.group, group::GRP_PROC_COUNT, SIZE as u32);
        set_half(&mut all.group, group::GRP_MY_RANK, RANK as u32);
        set_half(&mut all.group, group::GRP_FLAGS, group::OMPI_GROUP_DENSE);
        all.group[group::GRP_PROC_POINTERS / 8] = address(&all.list);
        all.list[RANK] = address(&all.process);
        set_half(&mut all.process, proc::PROC_NAME + 4, RANK as u32);
        all
    }

    fn answers(world: &World) -> [bool; 3] {
        let memory = Memory::open().expect("the kernel shows this process its memory");
        let comm = address(&world.comm) as Object;
        [
            has_communicators(&memory, comm, RANK as c_int),
            has_flags(&memory, comm, RANK as c_int),
            has_groups(&memory, comm, SIZE, RANK),
        ]
    }

    #[test]
    fn structs_of_this_release_are_known() {
        assert_eq!(answers(&world()), [true; 3]);
    }

    #[test]
    fn others_are_refused() {
        let mut other = world();
        other.module[coll_module::COLL_ALLGATHER / 8 + coll::BCAST] = 7;
        assert_eq!(answers(&other), [false, true, true], "a function that is not its module's");
        let mut other = world();
        set_half(&mut other.comm, communicator::C_MY_RANK, 1);
        assert_eq!(answers(&other), [false, false, true], "another rank than MPI says");
        let mut other = world();
        other.process[proc::PROC_NAME / 8] = 0;
        assert_eq!(answers(&other), [true, true, false], "another name than its own");
        let mut other = world();
        set_half(&mut other.group, group::GRP_FLAGS, 0);
        assert_eq!(answers(&other), [true, true, false], "a group that is no list");
    }

    #[test]
    fn a_word_that_is_no_address_is_no_crash() {
        let mut other = world();
        other.comm[communicator::C_COLL / 8] = 8;
        other.comm[communicator::C_LOCAL_GROUP / 8] = 8;
        assert_eq!(answers(&other), [false, true, false]);
        assert_eq!(Memory::open().and_then(|memory| memory.word(8)), None);
    }
}
