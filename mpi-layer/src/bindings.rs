//! Where the objects in this process keep the addresses of functions of MPI that they call, so that ours are called instead: the
//! program, the libraries that it is linked to (Fortran's bindings, say) or has loaded (mpi4py), and tools.
//!
//! What an object keeps the dynamic linker has put there, by a list of places (relocations, elf(5)): a place that has the address of
//! Open MPI's function gets that of ours. One that has another's stays: a tool's function of the same name, say, which calls
//! `PMPI_...` itself. Whoever asks for the name later, an object that is loaded or that calls it for the first time, or `dlsym`, is told by
//! libmpi's table of symbols, which says where ours is from then on. No code is changed.
//!
//! An address that a program can keep ([`announce`]) and one through which it only calls, of the procedure linkage table
//! ([`take_calls`]), are replaced one after the other: until ours are needed, calls of the program go to Open MPI's by the same way as
//! without ringwatch.
//!
//! An address that a program has asked for before by itself is still Open MPI's.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::openmpi::base_of;

/// Tags of a dynamic section (elf.h): where things are, and their sizes in bytes.
const NO_MORE: usize = 0;
const SIZE_OF_JUMPS: usize = 2;
const NAMES: usize = 5;
const SYMBOLS: usize = 6;
const RELOCATIONS: usize = 7;
const SIZE_OF_RELOCATIONS: usize = 8;
const JUMPS: usize = 23;
const HASHES: usize = 0x6fff_fef5;
/// Kinds of places that have the address of a symbol: `R_X86_64_64`, `_GLOB_DAT` and `_JUMP_SLOT`.
const ADDRESSES: [u32; 3] = [1, 6, 7];

/// A place that has the address of a symbol, and its number in its list.
struct Place {
    address: *mut usize,
    symbol: u32,
    number: usize,
}

/// A list of places of an object.
#[derive(Clone, Copy)]
enum Places {
    /// Whose values the program may read.
    Known,
    /// Through which it calls.
    Called,
}

/// `Elf64_Dyn`
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    tag: usize,
    value: usize,
}

/// `Elf64_Rela`
#[repr(C)]
struct Relocation {
    offset: usize,
    kind: u32,
    symbol: u32,
    addend: usize,
}

/// `Elf64_Sym`
#[repr(C)]
struct Symbol {
    name: u32,
    attributes: u32,
    value: usize,
    size: usize,
}

/// A function of a library, by each of its names, and the one that is to be called in its place.
pub struct Replacement {
    pub names: [&'static CStr; 2],
    pub stock: *const c_void,
    pub ours: *const c_void,
}

/// A loaded object, and its dynamic section.
struct LoadedObject {
    base: usize,
    section: Vec<Entry>,
}

/// Whoever asks for one of the functions from now on is told of ours, which stand in place of those of one library, and so is
/// whoever knows an address already. Returns whether that could be done.
///
/// # Safety
/// Functions of the same types, which stay for ever.
pub unsafe fn announce(functions: &[Replacement]) -> bool {
    let Some(library) = functions.first().and_then(|function| base_of(function.stock)) else { return false };
    // Before objects are looked at, since who loads one meanwhile holds what `dlsym` waits for.
    let finds = |function: &Replacement, name: &CStr| {
        // SAFETY: a terminated name.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).cast_const() == function.stock }
    };
    let all = functions.iter().flat_map(|function| function.names.map(|name| (name, function)));
    // Who watches the dynamic linker (rtld-audit(7)) hears of a call from the table that the place is of.
    let is_watched = std::env::var_os("LD_AUDIT").is_some();
    let found: Vec<_> = all.filter(|(name, function)| !is_watched && finds(function, name)).collect();
    let (mut is_first, mut is_told) = (true, false);
    // SAFETY: as required of the caller; objects stay loaded while they are looked at.
    let tell = |object: &LoadedObject| unsafe {
        // The program, which would ask at its first call.
        if std::mem::take(&mut is_first) {
            object.settle_calls(&found);
        }
        if object.base == library as usize {
            is_told = object.tell(functions).is_some();
        }
    };
    // SAFETY: as required of the caller.
    for_each_object(tell) && is_told && unsafe { bind(functions, Places::Known) }
}

/// Has the objects of this process call the functions of ours in place of those of one library, which keeps calling its own. Returns
/// whether all do.
///
/// # Safety
/// As of [`announce`], after it.
pub unsafe fn take_calls(functions: &[Replacement]) -> bool {
    // SAFETY: as required of the caller.
    unsafe { bind(functions, Places::Called) }
}

/// # Safety
/// As of [`announce`].
unsafe fn bind(functions: &[Replacement], places: Places) -> bool {
    let Some(library) = functions.first().and_then(|function| base_of(function.stock)) else { return false };
    let mut are_bound = true;
    // SAFETY: as required of the caller; objects stay loaded while they are looked at.
    let bind = |object: &LoadedObject| unsafe {
        are_bound &= object.base == library as usize || object.bind(functions, places).is_some();
    };
    for_each_object(bind) && are_bound
}

/// Looks at all loaded objects; none is loaded or unloaded meanwhile. Returns whether that was possible.
fn for_each_object<F: FnMut(&LoadedObject)>(mut look: F) -> bool {
    unsafe extern "C" fn visit<F: FnMut(&LoadedObject)>(
        info: *mut libc::dl_phdr_info,
        _: usize,
        look: *mut c_void,
    ) -> c_int {
        // SAFETY: the dynamic linker passes what it knows of a loaded object, and what it was given for this function.
        let (info, look) = unsafe { (&*info, &mut *look.cast::<F>()) };
        // SAFETY: as above: headers that are there, and a list with its end.
        let object = unsafe {
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC).map(|header| {
                let base = info.dlpi_addr as usize;
                let mut next = base.wrapping_add(header.p_vaddr as usize) as *const Entry;
                let mut section = Vec::new();
                while (*next).tag != NO_MORE {
                    section.push(*next);
                    next = next.add(1);
                }
                LoadedObject { base, section }
            })
        };
        let result = catch_unwind(AssertUnwindSafe(|| object.iter().for_each(look)));
        c_int::from(result.is_err())
    }
    // SAFETY: the function of that type, with what it is to call.
    unsafe { libc::dl_iterate_phdr(Some(visit::<F>), (&raw mut look).cast()) == 0 }
}

impl Place {
    /// Whether the dynamic linker has not been asked yet: a call through such a place comes back to the table that it was made
    /// through, where the number of the place is given to the linker (ABI of x86-64, 5.2).
    ///
    /// # Safety
    /// A place of an object through which it calls.
    unsafe fn is_open(&self) -> bool {
        /// `endbr64`, and the first byte of `push` with four more.
        const LANDS: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        const PUSH: u8 = 0x68;
        // SAFETY: as required of the caller: what is called is code, of which so much can be read.
        unsafe {
            let Some(target) = NonNull::new(self.address.read() as *mut u8) else { return false };
            let lands = target.cast::<[u8; 4]>().read_unaligned() == LANDS;
            let push = target.add(if lands { LANDS.len() } else { 0 });
            push.read() == PUSH && push.add(1).cast::<u32>().read_unaligned() as usize == self.number
        }
    }
}

impl LoadedObject {
    fn value(&self, tag: usize) -> Option<usize> {
        self.section.iter().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// What a tag says the address of: the dynamic linker has made it one, but in objects that it cannot change.
    fn address<T>(&self, tag: usize) -> Option<*const T> {
        let value = self.value(tag)?;
        Some(if value < self.base { value.wrapping_add(self.base) } else { value } as *const T)
    }

    /// Whoever asks this library for one of the names is told of ours.
    ///
    /// # Safety
    /// An object that stays loaded, and functions of the same types.
    unsafe fn tell(&self, functions: &[Replacement]) -> Option<()> {
        let mappings = Mappings::read();
        for (function, name) in functions.iter().flat_map(|function| function.names.map(|name| (function, name))) {
            // SAFETY: as required of the caller.
            unsafe {
                let symbol = self.symbol(name)?;
                if self.base.wrapping_add((*symbol).value) != function.stock as usize {
                    return None;
                }
                mappings.write(&raw mut (*symbol).value, (function.ours as usize).wrapping_sub(self.base))?;
            }
        }
        Some(())
    }

    /// Wherever the object has the address of such a function it has that of ours.
    ///
    /// # Safety
    /// As of [`tell`](Self::tell).
    unsafe fn bind(&self, functions: &[Replacement], places: Places) -> Option<()> {
        // SAFETY: as required of the caller.
        unsafe {
            let of = |place: *mut usize| functions.iter().find(|function| function.stock as usize == place.read());
            let found =
                self.places(places).filter_map(|Place { address, .. }| Some((address, of(address)?.ours as usize)));
            Self::write_all(found.collect())
        }
    }

    /// The program calls the functions of the library that the dynamic linker would find for these names at its first call. What
    /// somebody has put in such a place stays.
    ///
    /// # Safety
    /// As of [`tell`](Self::tell), of the program.
    unsafe fn settle_calls(&self, found: &[(&CStr, &Replacement)]) -> Option<()> {
        let (symbols, names) = (self.address::<Symbol>(SYMBOLS)?, self.address::<c_char>(NAMES)?);
        // SAFETY: as required of the caller; symbols of the object, which have names.
        unsafe {
            let stock = |place: Place| {
                let name = CStr::from_ptr(names.add((*symbols.add(place.symbol as usize)).name as usize));
                let (_, function) = found.iter().find(|(found, _)| *found == name)?;
                place.is_open().then_some((place.address, function.stock as usize))
            };
            Self::write_all(self.places(Places::Called).filter_map(stock).collect())
        }
    }

    /// # Safety
    /// Places of an object that stays loaded, and values that are theirs.
    unsafe fn write_all(values: Vec<(*mut usize, usize)>) -> Option<()> {
        if values.is_empty() {
            return Some(());
        }
        let mappings = Mappings::read();
        // SAFETY: as required of the caller.
        values.into_iter().try_for_each(|(place, value)| unsafe { mappings.write(place, value) })
    }

    /// The places of a list that have addresses of symbols.
    ///
    /// # Safety
    /// An object that stays loaded.
    unsafe fn places(&self, places: Places) -> impl Iterator<Item = Place> {
        let (list, size) = match places {
            Places::Known => (RELOCATIONS, SIZE_OF_RELOCATIONS),
            Places::Called => (JUMPS, SIZE_OF_JUMPS),
        };
        let length = self.value(size).unwrap_or(0) / size_of::<Relocation>();
        // SAFETY: as required of the caller; the list has that size.
        let list = self.address(list).map_or(&[][..], |first| unsafe { std::slice::from_raw_parts(first, length) });
        let base = self.base;
        let has_address = |relocation: &Relocation| {
            relocation.symbol != 0 && relocation.addend == 0 && ADDRESSES.contains(&relocation.kind)
        };
        let place = move |(number, relocation): (usize, &Relocation)| {
            let address = base.wrapping_add(relocation.offset) as *mut usize;
            has_address(relocation).then_some(Place { address, symbol: relocation.symbol, number })
        };
        list.iter().enumerate().filter_map(place).filter(|place| place.address.is_aligned())
    }

    /// What the table of symbols has for a name.
    ///
    /// # Safety
    /// As of [`places`](Self::places).
    unsafe fn symbol(&self, name: &CStr) -> Option<*mut Symbol> {
        let (symbols, names) = (self.address::<Symbol>(SYMBOLS)?.cast_mut(), self.address::<c_char>(NAMES)?);
        let header = self.address::<u32>(HASHES)?;
        let hash =
            name.to_bytes().iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()));
        // SAFETY: as required of the caller. Behind four numbers and a filter of 64-bit words are the lists of all names with a hash in one class,
        // first where each begins among the symbols, then the hashes, of which the last of a list is odd.
        unsafe {
            let [classes, first, filter, _] = header.cast::<[u32; 4]>().read();
            let classes_at = header.add(4 + 2 * filter as usize);
            let mut index = classes_at.add((hash % classes) as usize).read();
            while index >= first {
                let present = classes_at.add((classes + index - first) as usize).read();
                let symbol = symbols.add(index as usize);
                if present | 1 == hash | 1 && CStr::from_ptr(names.add((*symbol).name as usize)) == name {
                    return Some(symbol);
                }
                index = if present & 1 == 0 { index + 1 } else { 0 };
            }
            None
        }
    }
}

/// What may be done with the memory of this process.
struct Mappings(Vec<(Range<usize>, c_int)>);

impl Mappings {
    fn read() -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        Self(maps.lines().filter_map(Self::of_line).collect())
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

    /// Writes to a place, also where it is protected, as it is again after that.
    ///
    /// # Safety
    /// A place of a loaded object whose value is an address.
    unsafe fn write(&self, place: *mut usize, value: usize) -> Option<()> {
        let (_, protection) = self.0.iter().find(|(range, _)| range.contains(&(place as usize)))?;
        // SAFETY: as required of the caller: other threads read the old value or the new one. Protections of a page are
        // changed to what they were and more.
        unsafe {
            let size = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).ok()?;
            let page = (place as usize / size * size) as *mut c_void;
            let is_protected = protection & libc::PROT_WRITE == 0;
            if is_protected && libc::mprotect(page, size, protection | libc::PROT_WRITE) != 0 {
                return None;
            }
            AtomicUsize::from_ptr(place).store(value, Ordering::Release);
            if is_protected {
                libc::mprotect(page, size, *protection);
            }
        }
        Some(())
    }
}
