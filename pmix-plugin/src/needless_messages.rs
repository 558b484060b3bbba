//! Suppresses libevent's messages about closed sockets, which are meaningless when processes die.
//!
//! When several ranks die at once PMIx closes their sockets while libevent still waits for them, and deletes the events
//! afterwards (pmix_server.c:1423 of PMIx 5.0.7). libevent finds the descriptors closed, says "Epoll MOD(4) on fd N
//! failed ... Bad file descriptor", and continues.

use std::ffi::{CStr, c_char, c_int};

/// `EVENT_LOG_WARN` and `EVENT_LOG_ERR` (event.h)
const WARNING: c_int = 2;
const ERROR: c_int = 3;

type Hear = unsafe extern "C" fn(c_int, *const c_char);

/// Suppresses these messages if this process has libevent.
pub fn keep_quiet() {
    // SAFETY: a function of event.h of that type, which may be called at any time; `log` is never unloaded, because
    // this library is not.
    unsafe {
        let set = libc::dlsym(libc::RTLD_DEFAULT, c"event_set_log_callback".as_ptr());
        if !set.is_null() {
            std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(Hear)>(set)(log);
        }
    }
}

/// Replaces libevent's own function, which writes to standard error.
///
/// # Safety
/// A terminated text.
unsafe extern "C" fn log(severity: c_int, text: *const c_char) {
    // SAFETY: as required of the caller.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    if let (Some(word), true) = (word_for(severity), has_to_say(&text)) {
        platform::say::say(&format!("[{word}] {text}"));
    }
}

/// libevent's name of a severity; `None` for messages that it does not write.
fn word_for(severity: c_int) -> Option<&'static str> {
    match severity {
        WARNING => Some("warn"),
        ERROR => Some("err"),
        _ => None,
    }
}

/// Whether a message is meaningful to the user.
fn has_to_say(text: &str) -> bool {
    !(text.starts_with("Epoll ") && text.ends_with("Bad file descriptor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_closed_descriptors_mean_nothing() {
        let closed = "Epoll MOD(4) on fd 31 failed. Old events were 6; read change was 2 (del); write change was 0 (none); close change was 0 (none): Bad file descriptor";
        assert!(!has_to_say(closed));
        assert!(has_to_say("Epoll ADD(1) on fd 31 failed. Old events were 0: Operation not permitted"));
        assert!(has_to_say("epoll_wait: Bad file descriptor"));
        assert_eq!([word_for(0), word_for(1), word_for(2), word_for(3)], [None, None, Some("warn"), Some("err")]);
    }
}
