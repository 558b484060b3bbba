//! Writes to memory of loaded objects that may be protected.

use std::ffi::{c_int, c_ulong, c_void};
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};

const MAPPINGS: &str = "/proc/self/maps";

/// Access rights of the memory of this process. The kernel is asked for each place (Linux 6.11); an older one only
/// has the whole list, which takes half a millisecond to read in a rank.
#[derive(Default)]
pub(crate) struct Protections {
    mappings: Option<File>,
    read: Vec<(Range<usize>, c_int)>,
}

/// `struct procmap_query` of linux/fs.h: the mapping of an address.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const PROCMAP_QUERY: c_ulong = 3 << 30 | (size_of::<Query>() as c_ulong) << 16 | (b'f' as c_ulong) << 8 | 17;
/// `PROCMAP_QUERY_VMA_READABLE`, `_WRITABLE` and `_EXECUTABLE`, and the rights of mprotect(2).
const RIGHTS: [(u64, c_int); 3] = [(1, libc::PROT_READ), (2, libc::PROT_WRITE), (4, libc::PROT_EXEC)];

impl Protections {
    /// The access rights of a place; `None` where nothing is mapped.
    fn of(&mut self, place: *mut usize) -> Option<c_int> {
        self.ask(place).or_else(|| self.find(place)).or_else(|| {
            // Another object has been loaded meanwhile.
            let maps = std::fs::read_to_string(MAPPINGS).unwrap_or_default();
            self.read = maps.lines().filter_map(of_line).collect();
            self.find(place)
        })
    }

    fn ask(&mut self, place: *mut usize) -> Option<c_int> {
        if self.mappings.is_none() {
            self.mappings = File::open(MAPPINGS).ok();
        }
        let descriptor = self.mappings.as_ref()?.as_raw_fd();
        let mut query = Query { size: size_of::<Query>() as u64, query_addr: place as u64, ..Query::default() };
        // SAFETY: the structure has its own size, and outlives the call.
        let result = unsafe { libc::ioctl(descriptor, PROCMAP_QUERY, &raw mut query) };
        (result == 0)
            .then(|| RIGHTS.iter().filter(|right| query.vma_flags & right.0 != 0).fold(0, |all, right| all | right.1))
    }

    fn find(&self, place: *mut usize) -> Option<c_int> {
        let address = place as usize;
        let (range, protection) = self.read.get(self.read.partition_point(|(range, _)| range.end <= address))?;
        range.contains(&address).then_some(*protection)
    }

    /// Writes to places, also to protected ones, whose protection is restored. Nothing is written if a place is
    /// unknown.
    ///
    /// # Safety
    /// Places of a loaded object whose values are addresses, and such values.
    pub(crate) unsafe fn write_all(&mut self, mut values: Vec<(*mut usize, usize)>) -> Option<()> {
        // SAFETY: asks for a number.
        let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let page = |place: *mut usize| place as usize / size * size;
        values.sort_unstable();
        let pages = values.chunk_by(|one, other| page(one.0) == page(other.0));
        let pages: Option<Vec<_>> = pages.map(|values| Some((self.of(values[0].0)?, values))).collect();
        for (protection, values) in pages? {
            let first = page(values[0].0) as *mut c_void;
            // SAFETY: as required of the caller: other threads read the old value or the new one. Protections of a page
            // are changed to what they were and more.
            unsafe {
                let is_protected = protection & libc::PROT_WRITE == 0;
                if is_protected && libc::mprotect(first, size, protection | libc::PROT_WRITE) != 0 {
                    return None;
                }
                for (place, value) in values {
                    AtomicUsize::from_ptr(*place).store(*value, Ordering::Release);
                }
                if is_protected {
                    libc::mprotect(first, size, protection);
                }
            }
        }
        Some(())
    }
}

/// A line of proc_pid_maps(5).
fn of_line(line: &str) -> Option<(Range<usize>, c_int)> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let rights = [('r', libc::PROT_READ), ('w', libc::PROT_WRITE), ('x', libc::PROT_EXEC)];
    let protection = rights.iter().filter(|right| rest.chars().take(3).any(|letter| letter == right.0));
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(start)?..address(end)?, protection.fold(0, |all, right| all | right.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    static CONSTANT: usize = 1;
    static VARIABLE: AtomicUsize = AtomicUsize::new(2);

    fn places() -> [*mut usize; 3] {
        [(&raw const CONSTANT).cast_mut(), VARIABLE.as_ptr(), of_line as *mut usize]
    }

    #[test]
    fn a_place_has_the_rights_of_its_mapping_however_they_are_found() {
        let expected = [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_EXEC];
        let mut protections = Protections::default();
        assert_eq!(places().map(|place| protections.of(place)), expected.map(Some));
        let maps = std::fs::read_to_string(MAPPINGS).unwrap();
        let listed = Protections { mappings: None, read: maps.lines().filter_map(of_line).collect() };
        assert_eq!(places().map(|place| listed.find(place)), expected.map(Some));
        assert_eq!(protections.of(std::ptr::without_provenance_mut(8)), None);
    }

    #[test]
    fn a_protected_place_is_written_and_stays_protected() {
        // SAFETY: asks for a number.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap();
        // SAFETY: a new mapping.
        let place = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), page, libc::PROT_READ, flags, -1, 0).cast::<usize>()
        };
        let mut protections = Protections::default();
        let nowhere = std::ptr::without_provenance_mut(page);
        // SAFETY: no object reads the place.
        unsafe {
            assert_eq!(protections.write_all(vec![(place, 5), (nowhere, 6)]), None);
            assert_eq!(place.read(), 0);
            assert_eq!(protections.write_all(vec![(place, 5)]), Some(()));
            assert_eq!((place.read(), protections.of(place)), (5, Some(libc::PROT_READ)));
            libc::munmap(place.cast(), page);
        }
    }
}
