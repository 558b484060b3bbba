//! Random numbers for keys and greetings.

use std::io;

/// Unpredictable bytes; at most 256, which the kernel returns at once.
///
/// # Errors
/// If the system has none.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    // SAFETY: writes at most N bytes into an array of that size.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if usize::try_from(got) == Ok(N) { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}
