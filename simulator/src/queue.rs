//! The queue of events, earliest first.
//!
//! A calendar queue (Brown 1988): what comes within the next tau, which is nearly everything while a broadcast spreads,
//! goes into buckets by its time, and only the bucket at hand is sorted; the rest, timers mostly, waits in a heap. An
//! event costs about the same however many are waiting.
//!
//! Simultaneous events are in the order of their contents (whom they concern, then what happens), never in that of
//! their insertion. So a run that leaves out events without effect handles the others in the same order.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use propagation::NodeId;

/// One thing that happens at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When, in nanoseconds.
    pub at: u64,
    /// Where.
    pub node: NodeId,
    /// What.
    pub what: What,
}

/// What happens to a node. What comes first here comes first among simultaneous events of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// It dies.
    Death,
    /// A copy of a broadcast arrives.
    Copy {
        /// The number of the broadcast in this run.
        broadcast: u32,
        /// The node the copy comes from.
        from: NodeId,
    },
    /// A heartbeat arrives.
    Heartbeat {
        /// The node it comes from.
        from: NodeId,
        /// The number of the heartbeat.
        count: u32,
    },
    /// Any other message arrives.
    Message {
        /// The node it comes from.
        from: NodeId,
        /// The number of the message in this run.
        number: u32,
    },
    /// Its member has something to do.
    Tick,
    /// It sends a heartbeat, but has no member.
    Beat,
    /// Its port is free for the next message.
    PortFree,
}

/// The events to come.
#[derive(Debug)]
pub struct Queue {
    /// Those of the bucket at hand, the earliest last.
    open: Vec<Event>,
    /// The number of the bucket at hand, counted from time zero.
    current: u64,
    /// Those of the buckets after it, each bucket in the place of its number modulo their count.
    buckets: Vec<Vec<Event>>,
    /// How many are in `buckets`.
    near: usize,
    /// The width of a bucket is this power of two.
    width: u32,
    /// All others.
    far: BinaryHeap<Reverse<Event>>,
}

thread_local! {
    /// The buckets of this thread's last queue, empty: the next run needs about the same capacities.
    static SPARE: Cell<Vec<Vec<Event>>> = const { Cell::new(Vec::new()) };
}

impl Drop for Queue {
    fn drop(&mut self) {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.iter_mut().for_each(Vec::clear);
        SPARE.set(buckets);
    }
}

impl Queue {
    /// For events most of which come at most `span` nanoseconds after they are known, about `density` of them waiting
    /// at a time.
    pub fn new(span: u64, density: usize) -> Queue {
        let count = (density / 32).clamp(16, 8192).next_power_of_two();
        // At least the span fits into all buckets but the one at hand.
        let width = (span / (count as u64 - 1) + 1).next_power_of_two().ilog2();
        let mut buckets = SPARE.take();
        buckets.resize_with(count, Vec::new);
        Queue { open: vec![], current: 0, buckets, near: 0, width, far: BinaryHeap::new() }
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        let bucket = event.at >> self.width;
        match bucket.checked_sub(self.current) {
            Some(0) => {
                let place = self.open.partition_point(|other| *other > event);
                self.open.insert(place, event);
            }
            Some(ahead) if ahead < self.buckets.len() as u64 => {
                let place = self.place(bucket);
                self.buckets[place].push(event);
                self.near += 1;
            }
            _ => self.far.push(Reverse(event)),
        }
    }

    /// Takes out the earliest event.
    pub fn pop(&mut self) -> Option<Event> {
        // Not beyond the next of the others: what it leads to may fall into any bucket from its own on.
        let limit = self.far.peek().map_or(u64::MAX, |Reverse(event)| event.at >> self.width);
        if self.near == 0 && self.open.is_empty() && limit < u64::MAX {
            self.current = limit;
        }
        while self.open.is_empty() && self.near > 0 && self.current < limit {
            self.current += 1;
            let place = self.place(self.current);
            std::mem::swap(&mut self.open, &mut self.buckets[place]);
            self.near -= self.open.len();
            // Few are simultaneous: the time decides, as a rule.
            self.open.sort_unstable_by(|a, b| b.at.cmp(&a.at).then_with(|| b.cmp(a)));
        }
        match (self.open.last(), self.far.peek()) {
            (Some(near), Some(Reverse(far))) if far < near => self.far.pop().map(|Reverse(event)| event),
            (Some(_), _) => self.open.pop(),
            (None, _) => self.far.pop().map(|Reverse(event)| event),
        }
    }

    fn place(&self, bucket: u64) -> usize {
        bucket as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tick(at: u64, node: NodeId) -> Event {
        Event { at, node, what: What::Tick }
    }

    #[test]
    fn simultaneous_events_come_in_the_order_of_their_contents() {
        let mut queue = Queue::new(100, 100);
        let death = Event { at: 7, node: 3, what: What::Death };
        for event in [tick(7, 4), tick(7, 3), death, tick(6, 9)] {
            queue.push(event);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [tick(6, 9), death, tick(7, 3), tick(7, 4)]);
    }

    proptest! {
        #[test]
        fn order_is_that_of_a_sorted_list(
            steps in proptest::collection::vec((0_u64..3000, 0_u32..4, any::<bool>()), 1..300),
            span in 1_u64..2000,
            density in 0_usize..2000,
        ) {
            let (mut queue, mut sorted, mut now) = (Queue::new(span, density), BinaryHeap::new(), 0);
            for (after, node, take) in steps {
                let event = tick(now + after, node);
                queue.push(event);
                sorted.push(Reverse(event));
                if take {
                    let next = sorted.pop().map(|Reverse(event)| event);
                    prop_assert_eq!(queue.pop(), next);
                    now = next.map_or(now, |event| event.at);
                }
            }
            while let Some(Reverse(event)) = sorted.pop() {
                prop_assert_eq!(queue.pop(), Some(event));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
