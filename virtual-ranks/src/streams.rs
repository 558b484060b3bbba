//! Standard output of the program goes into a terminal or pipe of this process before it leaves.

use std::os::fd::{FromRawFd, OwnedFd};

/// The file descriptor of standard output.
pub const STANDARD: i32 = 1;

/// Both ends of a new terminal that changes no byte, or of a pipe: where to read, and where to write.
pub fn pair(is_terminal: bool) -> Option<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors, which are new and nobody else's; a struct that is filled before it is used.
    unsafe {
        let nothing = std::ptr::null_mut();
        if is_terminal && libc::openpty(&mut ends[0], &mut ends[1], nothing, nothing.cast(), nothing.cast()) == 0 {
            let mut modes: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(ends[1], &mut modes) == 0 {
                libc::cfmakeraw(&mut modes);
                libc::tcsetattr(ends[1], libc::TCSANOW, &modes);
            }
            ends.iter().for_each(|end| _ = libc::fcntl(*end, libc::F_SETFD, libc::FD_CLOEXEC));
        } else if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return None;
        }
        Some((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// What C and Fortran keep goes to the file descriptor.
pub fn flush_streams() {
    // SAFETY: all streams of C; a function of gfortran's library, if there is one, which flushes all units without an
    // argument.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        let flush = libc::dlsym(libc::RTLD_DEFAULT, c"_gfortran_flush_i4".as_ptr());
        if !flush.is_null() {
            let flush: unsafe extern "C" fn(*const i32) = std::mem::transmute(flush);
            flush(std::ptr::null());
        }
    }
}

/// Signals are for the program's threads.
pub fn block_signals() {
    // SAFETY: a set that is filled before it is used.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &all, std::ptr::null_mut());
    }
}
