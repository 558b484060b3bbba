//! Work on connections, away from the daemon's loop.
//!
//! Making, connecting and giving back what a device keeps is the business of its driver and firmware, which may take
//! seconds: soft-RoCE waits up to 50 s to destroy a connection while packets to a dead machine are under way. A daemon
//! that waits with it is silent, and is declared dead.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::means::{Inlet, Means, Outlet};

/// Enough for libibverbs and its drivers. All of it counts, because the daemon's memory is locked.
const STACK: usize = 256 << 10;

/// Something to do; `number` comes back with the result.
pub enum Job {
    /// Make a slot for the node behind this address.
    Open { number: u64, peer: SocketAddr, first_packet: u32 },
    /// Connect a slot with the emitter that has answered this.
    Connect { number: u64, inlet: Box<dyn Inlet>, answer: Vec<u8> },
    /// Connect to the slot that the node behind this address has offered.
    Attach { number: u64, peer: SocketAddr, offer: Vec<u8>, first_packet: u32 },
}

/// What became of a [`Job`], or why nothing did, as a clause.
pub enum Product {
    /// A slot that is to be offered.
    Opened { number: u64, inlet: Result<Box<dyn Inlet>, String> },
    /// A slot that can be written.
    Connected { number: u64, inlet: Result<Box<dyn Inlet>, String> },
    /// An end through which flags can be raised.
    Attached { number: u64, outlet: Result<Box<dyn Outlet>, String> },
}

/// Does a job, however long it takes.
pub fn carry_out(means: &mut dyn Means, job: Job) -> Product {
    match job {
        Job::Open { number, peer, first_packet } => Product::Opened { number, inlet: means.open(peer, first_packet) },
        Job::Connect { number, mut inlet, answer } => {
            let inlet = inlet.connect(&answer).map(|()| inlet);
            Product::Connected { number, inlet }
        }
        Job::Attach { number, peer, offer, first_packet } => {
            Product::Attached { number, outlet: means.attach(peer, &offer, first_packet) }
        }
    }
}

/// Who does the jobs.
pub trait Workshop {
    /// Name of the means, for people.
    fn name(&self) -> &'static str;

    /// Takes a job.
    fn order(&mut self, job: Job);

    /// The next product, if there is one.
    fn collect(&mut self) -> Option<Product>;

    /// Gives back what is no longer needed.
    fn discard(&mut self, thing: Box<dyn Discarded>);
}

/// What can be given back by any thread.
pub trait Discarded: Send {}

impl Discarded for Box<dyn Inlet> {}
impl Discarded for Box<dyn Outlet> {}

/// Does each job when its product is collected: for means that never wait.
pub struct AtOnce<M> {
    means: M,
    jobs: VecDeque<Job>,
}

impl<M: Means> AtOnce<M> {
    /// With nothing to do yet.
    pub fn new(means: M) -> Self {
        Self { means, jobs: VecDeque::new() }
    }
}

impl<M: Means> Workshop for AtOnce<M> {
    fn name(&self) -> &'static str {
        self.means.name()
    }

    fn order(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    fn collect(&mut self) -> Option<Product> {
        Some(carry_out(&mut self.means, self.jobs.pop_front()?))
    }

    fn discard(&mut self, thing: Box<dyn Discarded>) {
        drop(thing);
    }
}

/// A thread that does one job after the other.
pub struct Thread {
    name: &'static str,
    jobs: Sender<Job>,
    products: Receiver<Product>,
}

impl Thread {
    /// Starts it.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start(mut means: Box<dyn Means>) -> std::io::Result<Self> {
        let (name, (jobs, taken), (done, products)) = (means.name(), channel(), channel());
        let work = move || {
            for job in taken {
                if done.send(carry_out(&mut *means, job)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("connections".into()).stack_size(STACK).spawn(work)?;
        Ok(Self { name, jobs, products })
    }
}

impl Workshop for Thread {
    fn name(&self) -> &'static str {
        self.name
    }

    fn order(&mut self, job: Job) {
        // It ends with this value only.
        let _ = self.jobs.send(job);
    }

    fn collect(&mut self) -> Option<Product> {
        self.products.try_recv().ok()
    }

    /// In a thread of its own, so that new connections do not wait for old ones. If the system has none left it is kept.
    fn discard(&mut self, thing: Box<dyn Discarded>) {
        let thing = ManuallyDrop::new(thing);
        let give_back = move || drop(ManuallyDrop::into_inner(thing));
        let _ = thread::Builder::new().name("discard".into()).stack_size(STACK).spawn(give_back);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Barrier};

    use super::*;
    use crate::testing::wait_until;

    /// A device that takes its time until both sides have come to the barrier.
    struct Slow(Arc<Barrier>);

    impl Means for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }

        fn open(&mut self, _: SocketAddr, _: u32) -> Result<Box<dyn Inlet>, String> {
            self.0.wait();
            Err("it is slow".into())
        }

        fn attach(&mut self, _: SocketAddr, _: &[u8], _: u32) -> Result<Box<dyn Outlet>, String> {
            Err("it is slow".into())
        }
    }

    struct SlowEnd(Arc<Barrier>, Arc<AtomicBool>);

    impl Discarded for SlowEnd {}

    impl Drop for SlowEnd {
        fn drop(&mut self) {
            self.0.wait();
            self.1.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn nobody_waits_for_a_slow_device() {
        let (opened, dropped, is_gone) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)), Arc::default());
        let mut thread = Thread::start(Box::new(Slow(Arc::clone(&opened)))).unwrap();
        thread.discard(Box::new(SlowEnd(Arc::clone(&dropped), Arc::clone(&is_gone))));
        thread.order(Job::Open { number: 7, peer: ([127, 0, 0, 1], 1).into(), first_packet: 0 });
        assert!(thread.collect().is_none() && !is_gone.load(Ordering::Relaxed));
        opened.wait();
        let mut product = None;
        wait_until(|| {
            product = thread.collect();
            product.is_some()
        });
        let Some(Product::Opened { number: 7, inlet: Err(why) }) = product else { panic!("another product") };
        assert_eq!(why, "it is slow");
        dropped.wait();
        wait_until(|| is_gone.load(Ordering::Relaxed));
    }
}
