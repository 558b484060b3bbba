//! What a protocol does for the layer.
//!
//! A call comes when the one before has returned, and returns when it has its outcome: what is done while it waits
//! differs from protocol to protocol.

use std::ffi::c_int;

use event_log::determinant::Rank;
use event_log::protocol::units::{Channel, Envelope, Pattern, Request};

use crate::data::{Buffer, Data};

/// What a receive has got.
#[derive(Clone, Copy, Debug)]
pub struct Got {
    /// The sender and the tag.
    pub from: Envelope,
    /// Bytes, or the error class.
    pub bytes: Result<usize, c_int>,
}

/// What stands behind the functions of MPI in this process. Ranks are those of the program. Errors are error classes of
/// MPI.
pub trait Protocol: Send {
    /// Copies data.
    fn data(&mut self) -> &mut Data;

    /// Sends the same to each of these ranks. The buffer is the program's again when this returns.
    ///
    /// # Errors
    /// `MPIX_ERR_PROC_FAILED` if a rank is dead for good; `MPI_ERR_COUNT` for a message of 2 GiB.
    ///
    /// # Safety
    /// A buffer of the program or of an operation.
    unsafe fn send(&mut self, to: &[Rank], channel: Channel, buffer: Buffer) -> Result<(), c_int>;

    /// Starts a receive.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    fn receive(&mut self, pattern: Pattern, buffer: Buffer) -> Result<Request, c_int>;

    /// Receives a message that a probe has found.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    fn take(&mut self, pattern: Pattern) -> Result<Vec<u8>, c_int>;

    /// Ends one of these receives; `None` if none has its message and nobody `waits`.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    fn end_one(&mut self, requests: Vec<Request>, waits: bool) -> Result<Option<(Request, Got)>, c_int>;

    /// Ends all of these receives, in their order, if all have their messages.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    fn end_all(&mut self, requests: Vec<Request>) -> Result<Option<Vec<Got>>, c_int>;

    /// What the next message of this kind is, and its bytes; `None` if there is none and nobody `waits`.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    fn probe(&mut self, pattern: Pattern, waits: bool) -> Result<Option<(Envelope, usize)>, c_int>;

    /// Cancels a receive. Returns whether it had no message.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    fn cancel(&mut self, request: Request) -> Result<bool, c_int>;

    /// Nobody asks for the end of a receive any more (`MPI_Request_free`).
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    fn let_go(&mut self, request: Request) -> Result<(), c_int>;

    /// What a clock shows the program that shows this process `now`.
    fn clock(&mut self, now: u64) -> u64;

    /// The program prints nothing more: what it has printed leaves.
    fn end_output(&mut self);

    /// The program is about to end the job with an error.
    fn before_abort(&mut self);

    /// The end, after a barrier of all ranks. Returns when nobody needs this process any more.
    fn leave(&mut self);
}
