//! Interposes functions on MPI functions in all objects of this process: the program, its linked libraries (for example
//! Fortran's bindings), loaded libraries (for example mpi4py), and tools.
//!
//! The dynamic linker writes function addresses into an object at the places of its relocations (elf(5)). A place that
//! contains the address of Open MPI's function gets the address of ringwatch's function. A place that contains another
//! address keeps it: for example a tool's function of the same name, which calls `PMPI_...` itself. For later look-ups,
//! by an object that is loaded, by the first call of a name, or by `dlsym`, libmpi's symbol table is changed to contain
//! the address of ringwatch's function. No code is changed.
//!
//! Places whose value a program can read ([`announce`]) and places that are only used for calls, in the procedure
//! linkage table ([`take_calls`]), are changed in two steps: until ringwatch's functions are needed, calls of the
//! program reach Open MPI's functions by the same path as without ringwatch.
//!
//! Limit: an address that a program has looked up earlier remains that of Open MPI's function.
//!
//! Several functions may be interposed on one function, one before the other ([`in_front`]). The last one is called.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

use crate::in_front;
use crate::protections::Protections;

/// `struct link_map` of link.h, as far as it is documented.
#[repr(C)]
struct LinkMap {
    base: usize,
    path: *const c_char,
    section: *const Entry,
}

/// Tags of a dynamic section (elf.h): addresses, and their sizes in bytes.
const NO_MORE: usize = 0;
const SIZE_OF_JUMPS: usize = 2;
const NAMES: usize = 5;
const SYMBOLS: usize = 6;
const RELOCATIONS: usize = 7;
const SIZE_OF_RELOCATIONS: usize = 8;
const JUMPS: usize = 23;
const HASHES: usize = 0x6fff_fef5;
/// Types of relocations that contain the address of a symbol: `R_X86_64_64`, `_GLOB_DAT` and `_JUMP_SLOT`.
const ADDRESSES: [u32; 3] = [1, 6, 7];

/// A place that contains the address of a symbol, and its index in its list.
struct Place {
    address: *mut usize,
    symbol: u32,
    number: usize,
}

/// A list of places of an object.
#[derive(Clone, Copy)]
enum Places {
    /// Places whose values the program may read.
    Known,
    /// Places through which the object calls.
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

#[derive(Clone, Copy)]
/// A function of a library, by each of its names, and the function to call in its place.
pub struct Replacement {
    /// Its names: `PMPI_` and `MPI_`.
    pub names: [&'static CStr; 2],
    /// The address in the symbol table: Open MPI's own function, or the function that is already interposed.
    pub stock: *const c_void,
    /// The function to call in its place.
    pub ours: *const c_void,
}

/// A loaded object, and its dynamic section.
pub(crate) struct LoadedObject {
    /// Its path; empty for the program.
    pub(crate) path: String,
    base: usize,
    section: Vec<Entry>,
}

/// Makes look-ups of these functions, all of one library, return the replacements, and replaces the addresses that
/// objects already have. Returns whether that succeeds.
///
/// # Safety
/// Functions of the same types, which are never unloaded.
pub unsafe fn announce(functions: &[Replacement]) -> bool {
    // SAFETY: as required of the caller.
    unsafe { announce_by(functions, &mut Protections::default()) }
}

/// Redirects the calls of this process's objects to the replacements. The library that defines the functions continues
/// to call its own. Returns whether all objects are redirected.
///
/// # Safety
/// As of [`announce`], after it.
pub unsafe fn take_calls(functions: &[Replacement]) -> bool {
    // SAFETY: as required of the caller.
    unsafe { bind(functions, Places::Called, &mut Protections::default()) }
}

/// Does both at once, also where ringwatch's functions are interposed already, with or without their calls taken.
///
/// # Safety
/// As of [`announce`].
pub unsafe fn stand_in_front(functions: &[Replacement]) -> bool {
    let mut protections = Protections::default();
    let all = |function: &Replacement| {
        let (stock, replacement) = (function.stock, *function);
        let known = std::iter::once(stock).chain(in_front::all_behind(stock));
        known.map(move |stock| Replacement { stock, ..replacement })
    };
    let in_place_of_all: Vec<_> = functions.iter().flat_map(all).collect();
    // SAFETY: as required of the caller.
    unsafe { announce_by(functions, &mut protections) && bind(&in_place_of_all, Places::Called, &mut protections) }
}

/// Where the library is loaded that has this address.
pub fn base_of(address: *const c_void) -> Option<*const c_void> {
    // SAFETY: any address may be asked for.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &mut info) != 0).then_some(info.dli_fbase.cast_const())
    }
}

/// Whether both addresses are in the same loaded library.
pub fn are_of_one_library(one: *const c_void, other: *const c_void) -> bool {
    base_of(one).is_some_and(|first| Some(first) == base_of(other))
}

/// Load address of the library that defines these functions.
fn library_of(functions: &[Replacement]) -> Option<*const c_void> {
    base_of(in_front::stock(functions.first()?.stock))
}

/// # Safety
/// As of [`announce`].
unsafe fn announce_by(functions: &[Replacement], protections: &mut Protections) -> bool {
    let Some(library) = library_of(functions) else { return false };
    // Runs before objects are inspected: a thread that loads an object meanwhile holds the lock that `dlsym` waits for.
    let finds = |function: &Replacement, name: &CStr| {
        // SAFETY: a terminated name.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).cast_const() == function.stock }
    };
    let all = functions.iter().flat_map(|function| function.names.map(|name| (function, name)));
    // An auditor of the dynamic linker (rtld-audit(7)) sees a call by the linkage table that contains the place.
    let is_watched = std::env::var_os("LD_AUDIT").is_some();
    let found = all.filter(|(function, name)| !is_watched && finds(function, name));
    let found: HashMap<_, _> = found.map(|(function, name)| (name, function.stock as usize)).collect();
    functions.iter().for_each(|function| in_front::note(function.ours, function.stock));
    let (mut is_first, mut is_told) = (true, false);
    // SAFETY: as required of the caller; objects stay loaded while they are inspected.
    let tell = |object: &LoadedObject| unsafe {
        // The program, which would look up the name at its first call.
        if std::mem::take(&mut is_first) {
            object.settle_calls(&found, protections);
        }
        if object.base == library as usize {
            is_told = object.tell(functions, protections).is_some();
        }
    };
    // SAFETY: as required of the caller.
    for_each_object(tell) && is_told && unsafe { bind(functions, Places::Known, protections) }
}

/// # Safety
/// As of [`announce`].
unsafe fn bind(functions: &[Replacement], places: Places, protections: &mut Protections) -> bool {
    let Some(library) = library_of(functions) else { return false };
    let of: HashMap<usize, usize> =
        functions.iter().map(|function| (function.stock as usize, function.ours as usize)).collect();
    let mut are_bound = true;
    // SAFETY: as required of the caller; objects stay loaded while they are inspected.
    let bind = |object: &LoadedObject| unsafe {
        are_bound &= object.base == library as usize || object.bind(&of, places, protections).is_some();
    };
    for_each_object(bind) && are_bound
}

/// Visits all loaded objects; none is loaded or unloaded meanwhile. Returns whether that was possible.
pub(crate) fn for_each_object<F: FnMut(&LoadedObject)>(mut look: F) -> bool {
    unsafe extern "C" fn visit<F: FnMut(&LoadedObject)>(
        info: *mut libc::dl_phdr_info,
        _: usize,
        look: *mut c_void,
    ) -> c_int {
        // SAFETY: the dynamic linker passes its description of a loaded object, and the argument of this function.
        let (info, look) = unsafe { (&*info, &mut *look.cast::<F>()) };
        // SAFETY: as above: headers that are there, and a list with its end.
        let object = unsafe {
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC).map(|header| {
                let base = info.dlpi_addr as usize;
                LoadedObject::at(base, base.wrapping_add(header.p_vaddr as usize) as *const Entry, info.dlpi_name)
            })
        };
        let result = catch_unwind(AssertUnwindSafe(|| object.iter().for_each(look)));
        c_int::from(result.is_err())
    }
    // SAFETY: the function of that type, with its argument.
    unsafe { libc::dl_iterate_phdr(Some(visit::<F>), (&raw mut look).cast()) == 0 }
}

impl Place {
    /// Whether the dynamic linker has not resolved the place yet: a call through such a place returns to its linkage
    /// table, which passes the index of the place to the linker (ABI of x86-64, 5.2).
    ///
    /// # Safety
    /// A place through which its object calls.
    unsafe fn is_open(&self) -> bool {
        /// `endbr64`, and the first byte of `push` with four more.
        const LANDS: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
        const PUSH: u8 = 0x68;
        // SAFETY: as required of the caller: the target is code, of which this many bytes can be read.
        unsafe {
            let Some(target) = NonNull::new(self.address.read() as *mut u8) else { return false };
            let lands = target.cast::<[u8; 4]>().read_unaligned() == LANDS;
            let push = target.add(if lands { LANDS.len() } else { 0 });
            push.read() == PUSH && push.add(1).cast::<u32>().read_unaligned() as usize == self.number
        }
    }
}

impl LoadedObject {
    /// # Safety
    /// Of a loaded object: its dynamic section, and its path or null.
    unsafe fn at(base: usize, mut next: *const Entry, path: *const c_char) -> Self {
        let mut section = Vec::new();
        // SAFETY: as required of the caller; a list has its end.
        unsafe {
            while (*next).tag != NO_MORE {
                section.push(*next);
                next = next.add(1);
            }
            let path = NonNull::new(path.cast_mut());
            let path = path.map(|path| CStr::from_ptr(path.as_ptr()).to_string_lossy().into_owned());
            Self { path: path.unwrap_or_default(), base, section }
        }
    }

    /// The object of a handle of `dlopen`.
    ///
    /// # Safety
    /// A handle that is open.
    pub(crate) unsafe fn of_handle(handle: *mut c_void) -> Option<Self> {
        let mut map: *const LinkMap = std::ptr::null();
        // SAFETY: as required of the caller; the result is the linker's own description of the object.
        unsafe {
            let result = libc::dlinfo(handle, libc::RTLD_DI_LINKMAP, (&raw mut map).cast());
            let map = NonNull::new(map.cast_mut()).filter(|_| result == 0)?.as_ref();
            Some(Self::at(map.base, map.section, map.path))
        }
    }

    fn value(&self, tag: usize) -> Option<usize> {
        self.section.iter().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// The address that a tag contains. The dynamic linker has relocated it, except in objects that it cannot change.
    fn address<T>(&self, tag: usize) -> Option<*const T> {
        let value = self.value(tag)?;
        Some(if value < self.base { value.wrapping_add(self.base) } else { value } as *const T)
    }

    /// Makes look-ups of these names in this library return the replacements.
    ///
    /// # Safety
    /// An object that stays loaded, and functions of the same types.
    unsafe fn tell(&self, functions: &[Replacement], protections: &mut Protections) -> Option<()> {
        let all = functions.iter().flat_map(|function| function.names.map(|name| (function, name)));
        let value = |(function, name): (&Replacement, &CStr)| {
            // SAFETY: as required of the caller.
            unsafe {
                let symbol = self.symbol(name)?;
                let is_stock = self.base.wrapping_add((*symbol).value) == function.stock as usize;
                is_stock.then(|| (&raw mut (*symbol).value, (function.ours as usize).wrapping_sub(self.base)))
            }
        };
        let values: Option<Vec<_>> = all.map(value).collect();
        // SAFETY: as required of the caller.
        unsafe { protections.write_all(values?) }
    }

    /// Replaces every address of such a function in the object.
    ///
    /// # Safety
    /// As of [`tell`](Self::tell).
    unsafe fn bind(&self, ours: &HashMap<usize, usize>, places: Places, protections: &mut Protections) -> Option<()> {
        // SAFETY: as required of the caller.
        unsafe {
            let found = self
                .places(places)
                .filter_map(|Place { address, .. }| Some((address, *ours.get(&address.read())?)))
                .collect();
            protections.write_all(found)
        }
    }

    /// The names of the functions whose addresses the object has, with the places of these addresses.
    ///
    /// # Safety
    /// An object that stays loaded.
    pub(crate) unsafe fn functions(&self) -> Vec<(&CStr, *mut usize)> {
        // SAFETY: as required of the caller.
        let named = |places| unsafe { self.named(places) }.map(|(name, place)| (name, place.address));
        named(Places::Called).chain(named(Places::Known)).collect()
    }

    /// Has the object call `ours` in place of the function of this name. Returns what it has called until now; `None`
    /// if it has no such calls.
    ///
    /// # Safety
    /// An object that stays loaded, and a function of the same type.
    pub(crate) unsafe fn redirect(
        &self,
        name: &CStr,
        ours: *const c_void,
        protections: &mut Protections,
    ) -> Option<*const c_void> {
        // SAFETY: as required of the caller.
        unsafe {
            // Built without a linkage table (`-fno-plt`) it calls through the other list.
            let place = |places| self.named(places).find(|(known, _)| *known == name).map(|(_, place)| place.address);
            let place = place(Places::Called).or_else(|| place(Places::Known))?;
            let stock = place.read() as *const c_void;
            protections.write_all(vec![(place, ours as usize)]).map(|()| stock)
        }
    }

    /// The places of a list that contain addresses of symbols, with their names.
    ///
    /// # Safety
    /// An object that stays loaded.
    unsafe fn named(&self, places: Places) -> impl Iterator<Item = (&CStr, Place)> {
        let (symbols, names) = (self.address::<Symbol>(SYMBOLS), self.address::<c_char>(NAMES));
        // SAFETY: as required of the caller.
        let all = symbols.zip(names).map(|tables| (tables, unsafe { self.places(places) }));
        all.into_iter().flat_map(|((symbols, names), places)| {
            places.map(move |place| {
                // SAFETY: symbols of the object, which have names.
                let name = unsafe { CStr::from_ptr(names.add((*symbols.add(place.symbol as usize)).name as usize)) };
                (name, place)
            })
        })
    }

    /// Resolves the program's calls of these names to the library's functions that the dynamic linker would find at the
    /// first call. A place that another party has changed keeps its value.
    ///
    /// # Safety
    /// As of [`tell`](Self::tell), of the program.
    unsafe fn settle_calls(&self, found: &HashMap<&CStr, usize>, protections: &mut Protections) -> Option<()> {
        // SAFETY: as required of the caller.
        unsafe {
            let stock = |(name, place): (&CStr, Place)| {
                let stock = *found.get(name)?;
                place.is_open().then_some((place.address, stock))
            };
            protections.write_all(self.named(Places::Called).filter_map(stock).collect())
        }
    }

    /// The places of a list that contain addresses of symbols.
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

    /// The entry of the symbol table for a name.
    ///
    /// # Safety
    /// As of [`places`](Self::places).
    unsafe fn symbol(&self, name: &CStr) -> Option<*mut Symbol> {
        let (symbols, names) = (self.address::<Symbol>(SYMBOLS)?.cast_mut(), self.address::<c_char>(NAMES)?);
        let header = self.address::<u32>(HASHES)?;
        let hash =
            name.to_bytes().iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()));
        // SAFETY: as required of the caller. Behind four numbers and a filter of 64-bit words are the lists of all
        // names with a hash in one class, first where each begins among the symbols, then the hashes, of which the last
        // of a list is odd.
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
