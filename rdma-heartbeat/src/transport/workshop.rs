//! Runs work on connections outside of the daemon's loop.
//!
//! A device's driver and firmware make, connect and release connections, which may take seconds: soft-RoCE waits up to
//! 50 s to destroy a connection while packets to a dead machine are pending. A daemon that waits for it is silent, and
//! is declared dead.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::means::{Inlet, Means, Outlet};

/// Stack size in bytes, enough for libibverbs and its drivers. It is fully locked, like all of the daemon's memory.
const STACK: usize = 256 << 10;

/// A job; `number` is returned with the result.
pub enum Job {
    /// Make a slot for the node behind this address.
    Open { number: u64, peer: SocketAddr, first_packet: u32 },
    /// Connect a slot with the emitter that has sent this answer.
    Connect { number: u64, inlet: Box<dyn Inlet>, answer: Vec<u8> },
    /// Connect to the slot that the node behind this address has offered.
    Attach { number: u64, peer: SocketAddr, offer: Vec<u8>, first_packet: u32 },
}

/// The result of a [`Job`], or the reason of its failure, as a clause.
pub enum Product {
    /// A slot to be offered.
    Opened { number: u64, inlet: Result<Box<dyn Inlet>, String> },
    /// A slot that can be written.
    Connected { number: u64, inlet: Result<Box<dyn Inlet>, String> },
    /// An end through which flags can be raised.
    Attached { number: u64, outlet: Result<Box<dyn Outlet>, String> },
}

/// Does a job, for as long as it takes.
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

/// Runs the jobs.
pub trait Workshop {
    /// Name of the means, for messages.
    fn name(&self) -> &'static str;

    /// Takes a job.
    fn order(&mut self, job: Job);

    /// The next product, if there is one.
    fn collect(&mut self) -> Option<Product>;

    /// Releases an unneeded object.
    fn discard(&mut self, thing: Box<dyn Discarded>);
}

/// An object that any thread can release.
pub trait Discarded: Send {}

impl Discarded for Box<dyn Inlet> {}
impl Discarded for Box<dyn Outlet> {}

/// Runs each job when its product is collected: for means that never wait.
pub struct AtOnce<M> {
    means: M,
    jobs: VecDeque<Job>,
}

impl<M: Means> AtOnce<M> {
    /// Without jobs.
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

/// A thread that runs jobs one after another.
pub struct Thread {
    name: &'static str,
    jobs: Sender<Job>,
    products: Receiver<Product>,
}

impl Thread {
    /// Starts it.
    ///
    /// # Errors
    /// If no thread can be started.
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
        // It ends only with this value.
        let _ = self.jobs.send(job);
    }

    fn collect(&mut self) -> Option<Product> {
        self.products.try_recv().ok()
    }

    /// Uses a separate thread, so that new connections do not wait for old ones. If none can be started, the object is
    /// leaked.
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

    use platform::testing::wait_until;

    use super::*;

    /// A device that waits until both sides have reached the barrier.
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
