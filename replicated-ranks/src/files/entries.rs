//! The functions of the C library by which a program opens, renames and removes files.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use openmpi_internals::calls_by_name::{self, ByName};
use openmpi_internals::sync::lock;
use replication::replicas::{Indices, Replica};
use virtual_ranks::system_clocks::decided;

use super::{Access, Files};

static FILES: OnceLock<Mutex<Files>> = OnceLock::new();

/// Has the program's files written once. Returns whether all of the program's objects could be changed.
pub fn take(me: Replica) -> bool {
    let _ = FILES.set(Mutex::new(Files::new(me)));
    let functions: [ByName; 10] = [
        (c"fopen", fopen as *const c_void),
        (c"fopen64", fopen as *const c_void),
        (c"open", open as *const c_void),
        (c"open64", open as *const c_void),
        (c"__open_2", open_2 as *const c_void),
        (c"__open64_2", open_2 as *const c_void),
        (c"creat", creat as *const c_void),
        (c"rename", rename as *const c_void),
        (c"unlink", unlink as *const c_void),
        (c"remove", remove as *const c_void),
    ];
    // SAFETY: each has the type of its function in the C library, but that `open` always has a third argument, which is
    // passed like those before it. They stay for ever.
    unsafe { calls_by_name::take_calls(&functions) }
}

/// The program's files are as they are to be.
pub fn end(living: Indices) {
    if let Some(files) = FILES.get() {
        lock(files).end(living);
    }
}

fn path_of(path: *const c_char) -> Option<PathBuf> {
    // SAFETY: null, or a terminated text, as of the caller.
    let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })?;
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    std::env::current_dir().ok().map(|folder| folder.join(path))
}

/// The file to open in place of this one; `None` if it is that itself.
fn in_place_of(path: *const c_char, access: Access) -> Option<CString> {
    let open = || {
        let path = path_of(path)?;
        let found = lock(FILES.get()?).open(&path, access, decided);
        CString::new(found.ok().flatten()?.into_os_string().into_vec()).ok()
    };
    catch_unwind(AssertUnwindSafe(open)).ok().flatten()
}

unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: null, or a terminated text, as of the caller.
    let words = if mode.is_null() { &[][..] } else { unsafe { CStr::from_ptr(mode) }.to_bytes() };
    let has = |letter| words.contains(&letter);
    let access = Access { writes: has(b'w') || has(b'a') || has(b'+'), keeps: !has(b'w'), is_new: has(b'x') };
    let ours = in_place_of(path, access);
    // SAFETY: the system's function, with the caller's arguments or another path.
    unsafe { libc::fopen(ours.as_ref().map_or(path, |ours| ours.as_ptr()), mode) }
}

unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    let ours = in_place_of(path, access_of(flags));
    // SAFETY: as above.
    unsafe { libc::open(ours.as_ref().map_or(path, |ours| ours.as_ptr()), flags, mode) }
}

/// `open` of a program that was compiled with checks, without a mode.
unsafe extern "C" fn open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { open(path, flags, 0) }
}

unsafe extern "C" fn creat(path: *const c_char, mode: libc::mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
}

fn access_of(flags: c_int) -> Access {
    let has = |flag| flags & flag == flag;
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY && !has(libc::O_TMPFILE) && !has(libc::O_PATH);
    Access { writes, keeps: !has(libc::O_TRUNC), is_new: has(libc::O_CREAT | libc::O_EXCL) }
}

/// Does something with the copy, or what the system does.
fn instead(with_copy: impl FnOnce(&mut Files) -> Option<io::Result<bool>>, stock: impl FnOnce() -> c_int) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(|| with_copy(&mut lock(FILES.get()?)))).ok().flatten();
    match done {
        Some(Ok(true)) => 0,
        Some(Err(error)) => {
            // SAFETY: the place of this thread's error number.
            unsafe { *libc::__errno_location() = error.raw_os_error().unwrap_or(libc::EIO) };
            -1
        }
        _ => stock(),
    }
}

unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as above.
    instead(|files| Some(files.rename(&path_of(from)?, &path_of(to)?)), || unsafe { libc::rename(from, to) })
}

unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: as above.
    instead(|files| Some(files.remove(&path_of(path)?)), || unsafe { libc::unlink(path) })
}

unsafe extern "C" fn remove(path: *const c_char) -> c_int {
    // SAFETY: as above.
    instead(|files| Some(files.remove(&path_of(path)?)), || unsafe { libc::remove(path) })
}
