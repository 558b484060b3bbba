//! Frames functions that are called in place of Open MPI's: each finds its stock function, which is set once its
//! feature is installed, and lets no panic cross the border to C.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body` with `found`. Returns `failure` if that is `None`, or if `body` panics.
pub fn run<S, R: Copy>(found: Option<S>, failure: R, body: impl FnOnce(S) -> R) -> R {
    found.map_or(failure, |found| guard(failure, || body(found)))
}

/// Runs `body`. Returns `failure` if it panics.
pub fn guard<R>(failure: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(failure)
}

/// Defines C functions that are called in place of Open MPI's. `stock = STOCK.get(), or ERR_INTERN;` names the value
/// that their bodies need, its place, and the result without it or after a panic.
///
/// Functions of the ABI `C-unwind` may be left by unwinding, through an error handler of the program or from a
/// [hopeless wait](crate::onesided::unwind). They catch nothing.
macro_rules! in_front {
    ($needed:pat_param = $found:expr, or $failure:expr; $(
        $(#[$about:meta])*
        unsafe extern "C" fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block
    )+) => {$(
        $(#[$about])*
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            $crate::in_front::run($found, $failure, |$needed| $body)
        }
    )+};
    ($needed:pat_param = $found:expr, or $failure:expr; $(
        $(#[$about:meta])*
        unsafe extern "C-unwind" fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty $body:block
    )+) => {$(
        $(#[$about])*
        unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let Some($needed) = $found else { return $failure };
            $body
        }
    )+};
}

pub(crate) use in_front;

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    static STOCK: OnceLock<i32> = OnceLock::new();

    in_front! { stock = STOCK.get(), or -1;
        unsafe extern "C" fn sum(number: i32) -> i32 {
            if number == 0 {
                return *stock;
            }
            assert!(number > 0, "nothing else is added");
            *stock + number
        }
    }

    #[test]
    fn what_is_not_installed_and_what_panics_fails() {
        let sum = |number| {
            // SAFETY: a function of this test.
            unsafe { sum(number) }
        };
        assert_eq!(sum(2), -1, "nothing is installed");
        STOCK.set(40).expect("nobody else sets it");
        assert_eq!([0, 2, -2].map(sum), [40, 42, -1]);
    }
}
