//! Records which function of ringwatch is interposed on which function of a library whose symbol table returns
//! ringwatch's functions. Ringwatch itself calls the library's own functions.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Mutex;

use crate::sync::lock;

/// The next function behind each interposed function: the library's own, or another one of ringwatch.
static BEHIND: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Records that a function is about to be interposed on another one. For functions of several names the first record is
/// kept.
pub(crate) fn note(ours: *const c_void, behind: *const c_void) {
    // No function is interposed on itself.
    if ours != behind && !all_behind(behind).contains(&ours) {
        lock(&BEHIND).entry(ours as usize).or_insert(behind as usize);
    }
}

/// The functions behind a function, the library's own last. Empty for a function that is not ringwatch's.
#[must_use]
pub fn all_behind(function: *const c_void) -> Vec<*const c_void> {
    let behind = lock(&BEHIND);
    let next = |function: &usize| behind.get(function).copied();
    std::iter::successors(next(&(function as usize)), next).map(|function| function as *const c_void).collect()
}

/// The library's own function: the last one behind a function of ringwatch, or the function itself.
#[must_use]
pub fn stock(function: *const c_void) -> *const c_void {
    all_behind(function).last().copied().unwrap_or(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_librarys_own_function_is_behind_all_that_stand_in_front_of_it() {
        let [own, first, second, other] = [1, 2, 3, 4].map(|place: usize| place as *const c_void);
        note(first, own);
        note(second, first);
        // A second record.
        note(second, first);
        note(first, second);
        note(first, first);
        assert_eq!(all_behind(second), [first, own]);
        assert_eq!([second, first, own, other].map(stock), [own, own, own, other]);
    }
}
