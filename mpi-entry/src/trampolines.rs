//! Functions that stand in front of those that a layer does not cover: they report the call, and go on to Open MPI's
//! with the arguments of the program, or return an error code.
//!
//! They are pieces of code for the ABI of x86-64, one per function, so that nobody has to know its arguments: each
//! leaves its index in `r11`, which belongs to no caller. A call that has been reported and not refused is two jumps
//! from then on. Registers for floating-point arguments are not saved, since no such function has any.

use std::arch::global_asm;
use std::ffi::{c_int, c_void};
use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::functions::{FUNCTIONS, Function};

const COUNT: usize = FUNCTIONS.len();
/// How far the code of one is from that of the next.
const DISTANCE: usize = 16;

/// Where each function goes on after the report.
static NEXT: [AtomicPtr<c_void>; COUNT] = [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT];
/// Where each jumps to at once: to the code that reports, and after a report without refusal where it goes on.
static TARGET: [AtomicPtr<c_void>; COUNT] =
    [const { AtomicPtr::new(ringwatch_entry_report as unsafe extern "C" fn() as *mut c_void) }; COUNT];
/// Who is told of a call.
static REPORT: OnceLock<fn(&'static Function) -> c_int> = OnceLock::new();

global_asm!(
    ".pushsection .text",
    ".globl ringwatch_entry_first",
    ".hidden ringwatch_entry_first",
    ".globl ringwatch_entry_report",
    ".hidden ringwatch_entry_report",
    ".balign {distance}",
    "ringwatch_entry_first:",
    ".cfi_startproc",
    ".set ringwatch_entry_index, 0",
    ".rept {count}",
    ".balign {distance}",
    "mov r11d, ringwatch_entry_index",
    "jmp 4f",
    ".set ringwatch_entry_index, ringwatch_entry_index + 1",
    ".endr",
    ".balign {distance}",
    "4:",
    "lea r10, [rip + {target}]",
    "jmp qword ptr [r10 + r11 * 8]",
    ".cfi_endproc",
    ".balign {distance}",
    "ringwatch_entry_report:",
    ".cfi_startproc",
    // The arguments that are in registers, and the index. With the return address the stack is aligned for a call.
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    "push r11",
    ".cfi_adjust_cfa_offset 56",
    "mov rdi, r11",
    "call {report}",
    "pop r11",
    "pop r9",
    "pop r8",
    "pop rcx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    ".cfi_adjust_cfa_offset -56",
    "test eax, eax",
    "jne 5f",
    "lea r10, [rip + {next}]",
    "jmp qword ptr [r10 + r11 * 8]",
    "5:",
    "ret",
    ".cfi_endproc",
    ".popsection",
    distance = const DISTANCE,
    count = const COUNT,
    target = sym TARGET,
    next = sym NEXT,
    report = sym report,
);

unsafe extern "C" {
    /// The code of the first function, behind which those of the others are.
    fn ringwatch_entry_first();
    /// The code that reports a call.
    fn ringwatch_entry_report();
}

/// Returns the code with which the call is refused, or 0. It is not reported again then.
unsafe extern "C" fn report(index: usize) -> c_int {
    let refusal = catch_unwind(|| REPORT.get().map_or(0, |report| report(&FUNCTIONS[index]))).unwrap_or(0);
    if refusal == 0 {
        TARGET[index].store(NEXT[index].load(Ordering::Acquire), Ordering::Release);
    }
    refusal
}

/// The code that stands in front of the function with this index in [`FUNCTIONS`], and goes on to `next`.
pub fn trampoline(index: usize, next: *const c_void) -> Option<*const c_void> {
    NEXT[index].store(next.cast_mut(), Ordering::Release);
    Some((ringwatch_entry_first as *const c_void).wrapping_byte_add(index * DISTANCE))
}

/// Who is told of calls, before there are any. Only the first who asks is.
pub fn report_to(report: fn(&'static Function) -> c_int) {
    let _ = REPORT.set(report);
}

#[cfg(test)]
mod tests {
    use std::mem::transmute;
    use std::sync::Mutex;

    use super::*;

    type EightWords = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> c_int;

    const REFUSED: &str = "Win_create";
    const REFUSAL: c_int = 52;

    static REPORTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    fn note(function: &'static Function) -> c_int {
        REPORTED.lock().unwrap().push(function.name);
        if function.name == REFUSED { REFUSAL } else { 0 }
    }

    /// Its answer tells whether each argument has arrived.
    unsafe extern "C" fn open(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize) -> c_int {
        if [a, b, c, d, e, f, g, h] == [1, 2, 3, 4, 5, 6, 7, 8] { 42 } else { -1 }
    }

    unsafe extern "C" fn never(
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
        _: usize,
    ) -> c_int {
        unreachable!("a refused call goes on")
    }

    fn call(name: &str, next: EightWords) -> c_int {
        let index = crate::functions::index_of(name).unwrap();
        let code = trampoline(index, next as *const c_void).unwrap();
        // SAFETY: the code of a function that goes on to that one.
        unsafe { transmute::<*const c_void, EightWords>(code)(1, 2, 3, 4, 5, 6, 7, 8) }
    }

    fn reports_of(name: &str) -> usize {
        REPORTED.lock().unwrap().iter().filter(|reported| **reported == name).count()
    }

    #[test]
    fn all_arguments_arrive_and_the_call_is_reported_once() {
        report_to(note);
        // The first and the last, too.
        let ends = [FUNCTIONS[0].name, FUNCTIONS[COUNT - 1].name];
        for name in ["File_open", ends[0], ends[1]] {
            assert_eq!([call(name, open), call(name, open)], [42, 42], "{name}");
            assert_eq!(reports_of(name), 1, "{name}");
        }
    }

    #[test]
    fn each_call_that_is_refused_returns_the_code_and_does_not_go_on() {
        report_to(note);
        assert_eq!([call(REFUSED, never), call(REFUSED, never)], [REFUSAL, REFUSAL]);
        assert_eq!(reports_of(REFUSED), 2);
    }
}
