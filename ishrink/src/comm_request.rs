//! Runs the schedules by which Open MPI makes communicators (`ompi_comm_request_t`) on fibers.
//!
//! A request is a schedule of steps. A step waits for requests and then calls a function. Open MPI runs all schedules
//! in one callback of the progress loop, where such a function may wait for the runtime (comm_cid.c,
//! `ompi_comm_allreduce_pmix_reduce_complete`). Schedules that a fiber starts run on the fiber's stack instead.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

use openmpi_internals::abi::RequestIsFailed;
use openmpi_internals::comm_request::Schedule;
use openmpi_internals::request::Request;
use openmpi_internals::wait_sync::WaitSync;

use crate::internals::Internals;

/// Unfinished schedules of a fiber.
#[derive(Default)]
pub struct Schedules {
    all: RefCell<Vec<*mut Schedule>>,
    /// Whether a step is running; it may have paused.
    advancing: Cell<bool>,
}

impl Schedules {
    /// Starts a schedule.
    ///
    /// # Safety
    /// A complete schedule that no other code runs.
    pub unsafe fn start(&self, schedule: *mut Schedule) {
        // SAFETY: as required of the caller.
        unsafe { Request::begin(&raw mut (*schedule).request) };
        self.all.borrow_mut().push(schedule);
    }

    /// Whether a step is running.
    pub fn is_advancing(&self) -> bool {
        self.advancing.get()
    }

    /// Runs the steps of each schedule as far as possible without waiting.
    pub fn advance(&self) {
        if let Some(internals) = Internals::get() {
            self.carry_out_steps(internals.request_is_failed);
        }
    }

    /// Runs the first step of each schedule whose requests have completed. `is_failed` ends a request that cannot
    /// complete, and returns whether it has done so.
    fn carry_out_steps(&self, is_failed: RequestIsFailed) {
        if self.advancing.replace(true) {
            return;
        }
        let mut index = 0;
        loop {
            let Some(schedule) = self.all.borrow().get(index).copied() else { break };
            // SAFETY: Open MPI's schedule, which no other code runs; its owner frees it after its completion. A step
            // may start further schedules.
            unsafe {
                let code = Schedule::step(schedule, is_failed);
                if Schedule::is_empty(schedule) {
                    self.all.borrow_mut().remove(index);
                    complete(schedule, code);
                } else {
                    index += 1;
                }
            }
        }
        self.advancing.set(false);
    }
}

/// # Safety
/// A schedule without further steps.
unsafe fn complete(schedule: *mut Schedule, code: c_int) {
    // SAFETY: as required of the caller; only the fiber waits for the request.
    unsafe {
        let request = &raw mut (*schedule).request;
        // An error of a step's requests counts, too: Open MPI would ignore it, and repeat the step for ever.
        if code != 0 {
            (*request).set_code(code);
        }
        let waiting = Request::end(request);
        if !waiting.is_null() {
            WaitSync::end(waiting, 0);
        }
    }
}

/// The error code of a request, once it has completed.
///
/// # Safety
/// A live request of Open MPI.
pub unsafe fn completed_with(request: *const Request) -> Option<c_int> {
    // SAFETY: as required of the caller; another thread may complete it.
    unsafe { Request::is_complete(request).then(|| Request::code(request)) }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use openmpi_internals::layout::{comm_request, comm_request_item, list, list_item};

    use super::*;

    type Callback = unsafe extern "C" fn(*mut Schedule) -> c_int;

    /// A schedule of steps that wait for no request, in memory of its own.
    fn schedule(steps: &[Callback]) -> *mut Schedule {
        let schedule = Box::into_raw(Box::new(MaybeUninit::<Schedule>::zeroed())).cast::<Schedule>();
        // SAFETY: all offsets are within the schedule and its steps; running a step frees it.
        unsafe {
            let list = schedule.byte_add(comm_request::SCHEDULE);
            let end = list.byte_add(list::OPAL_LIST_SENTINEL).cast::<u8>();
            let next = |item: *mut u8| item.byte_add(list_item::OPAL_LIST_NEXT).cast::<*mut u8>();
            let previous = |item: *mut u8| item.byte_add(list_item::OPAL_LIST_PREV).cast::<*mut u8>();
            list.byte_add(list::OPAL_LIST_LENGTH).cast::<usize>().write(steps.len());
            let mut last = end;
            for callback in steps {
                let step = libc::calloc(1, comm_request_item::SIZE).cast::<u8>();
                step.byte_add(comm_request_item::CALLBACK).cast::<Callback>().write(*callback);
                next(last).write(step);
                previous(step).write(last);
                last = step;
            }
            next(last).write(end);
            previous(end).write(last);
        }
        schedule
    }

    /// The code of a schedule, once it has ended.
    fn ended(schedule: *mut Schedule) -> Option<c_int> {
        // SAFETY: a leaked box.
        unsafe { completed_with(&raw const (*schedule).request) }
    }

    unsafe extern "C" fn succeeds(_schedule: *mut Schedule) -> c_int {
        0
    }

    unsafe extern "C" fn fails(_schedule: *mut Schedule) -> c_int {
        7
    }

    unsafe extern "C" fn never_failed(_request: *mut Request) -> bool {
        false
    }

    #[test]
    fn each_advance_carries_out_one_step_of_every_schedule() {
        let (schedules, short, long) = (Schedules::default(), schedule(&[succeeds]), schedule(&[succeeds, succeeds]));
        // SAFETY: they are filled in.
        unsafe {
            schedules.start(short);
            schedules.start(long);
        }
        assert_eq!((ended(short), ended(long)), (None, None));
        schedules.carry_out_steps(never_failed);
        assert_eq!((ended(short), ended(long)), (Some(0), None));
        schedules.carry_out_steps(never_failed);
        assert_eq!(ended(long), Some(0));
        assert!(schedules.all.borrow().is_empty());
    }

    #[test]
    fn the_error_of_the_last_step_is_that_of_the_request() {
        let (schedules, failing) = (Schedules::default(), schedule(&[fails]));
        // SAFETY: it is filled in.
        unsafe { schedules.start(failing) };
        schedules.carry_out_steps(never_failed);
        assert_eq!(ended(failing), Some(7));
    }

    #[test]
    fn while_a_step_pauses_no_other_step_is_carried_out() {
        let (schedules, waiting) = (Schedules::default(), schedule(&[succeeds]));
        // SAFETY: it is filled in.
        unsafe { schedules.start(waiting) };
        schedules.advancing.set(true);
        schedules.carry_out_steps(never_failed);
        assert!(schedules.is_advancing());
        assert_eq!(ended(waiting), None);
    }
}
