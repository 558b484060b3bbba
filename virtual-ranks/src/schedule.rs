//! Collective operations as steps of one member: messages between named members, and what is combined.
//!
//! The steps depend on the number of members alone, so that data are combined in the same order whenever an operation
//! runs, and a result is the same bit by bit. Messages of one operation from one member to another are received in the
//! order of sending.

/// One step of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<B> {
    /// The data of a buffer go to these members.
    Send {
        /// The receivers.
        to: Vec<usize>,
        /// The data.
        data: B,
    },
    /// Data of a member come into a buffer.
    Receive {
        /// The sender.
        from: usize,
        /// The buffer.
        into: B,
    },
    /// Data are copied.
    Copy {
        /// From here.
        data: B,
        /// To there.
        into: B,
    },
    /// Data of lower members are combined with those of higher ones, where the latter are.
    Combine {
        /// Data of lower members.
        lower: B,
        /// Data of higher members, and then of both.
        higher: B,
    },
}

/// The steps of one member in their order.
pub type Steps<B> = Vec<Step<B>>;

/// The place of a member among all.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The number of members.
    pub size: usize,
    /// The place of this one.
    pub rank: usize,
}

impl Member {
    /// Members at all distances from this one but 0.
    fn others(self) -> impl Iterator<Item = (usize, usize)> {
        (1..self.size)
            .map(move |distance| ((self.rank + distance) % self.size, (self.rank + self.size - distance) % self.size))
    }

    /// Nobody goes on before all have begun. `nothing` is a buffer without data.
    pub fn barrier<B: Copy>(self, nothing: B) -> Steps<B> {
        let Self { size, rank } = self;
        let distances = std::iter::successors(Some(1), |distance| Some(distance * 2)).take_while(|it| *it < size);
        let round = |distance: usize| {
            let to = vec![(rank + distance) % size];
            [Step::Send { to, data: nothing }, Step::Receive { from: (rank + size - distance) % size, into: nothing }]
        };
        distances.flat_map(round).collect()
    }

    /// The root's data come to all, along a binomial tree.
    pub fn broadcast<B: Copy>(self, root: usize, buffer: B) -> Steps<B> {
        let Self { size, rank } = self;
        let (own, at) = ((rank + size - root) % size, |place: usize| (place + root) % size);
        let parent_bit = if own == 0 { size.next_power_of_two() } else { own & own.wrapping_neg() };
        let bits = std::iter::successors(Some(parent_bit >> 1), |bit| Some(bit >> 1)).take_while(|bit| *bit > 0);
        let children: Vec<usize> = bits.filter(|bit| own + bit < size).map(|bit| at(own + bit)).collect();
        let mut steps = Vec::new();
        if own != 0 {
            steps.push(Step::Receive { from: at(own - parent_bit), into: buffer });
        }
        if !children.is_empty() {
            steps.push(Step::Send { to: children, data: buffer });
        }
        steps
    }

    /// The root gets each member's data: its own from `own`, unless they are where they belong.
    pub fn gather<B: Copy>(self, root: usize, own: Option<B>, parts: &[B]) -> Steps<B> {
        if self.rank != root {
            return own.into_iter().map(|data| Step::Send { to: vec![root], data }).collect();
        }
        let received = (0..self.size).filter(|place| *place != root);
        let received = received.map(|place| Step::Receive { from: place, into: parts[place] });
        received.chain(own.map(|data| Step::Copy { data, into: parts[root] })).collect()
    }

    /// The root gives each member its part: its own into `own`, unless it stays where it is.
    pub fn scatter<B: Copy>(self, root: usize, own: Option<B>, parts: &[B]) -> Steps<B> {
        if self.rank != root {
            return own.into_iter().map(|into| Step::Receive { from: root, into }).collect();
        }
        let sent = (0..self.size).filter(|place| *place != root);
        let sent = sent.map(|place| Step::Send { to: vec![place], data: parts[place] });
        sent.chain(own.map(|into| Step::Copy { data: parts[root], into })).collect()
    }

    /// Each member gives all others the same, and gets a part of each.
    pub fn gather_for_all<B: Copy>(self, own: Option<B>, parts: &[B]) -> Steps<B> {
        let data = own.unwrap_or(parts[self.rank]);
        let mut steps = Vec::new();
        if self.size > 1 {
            steps.push(Step::Send { to: self.others().map(|(to, _)| to).collect(), data });
        }
        steps.extend(own.map(|data| Step::Copy { data, into: parts[self.rank] }));
        steps.extend(self.others().map(|(_, from)| Step::Receive { from, into: parts[from] }));
        steps
    }

    /// Each member gives each other one its part, and gets one; `None`: what is sent is where what is received comes.
    pub fn exchange<B: Copy>(self, sent: Option<&[B]>, received: &[B]) -> Steps<B> {
        let data = sent.unwrap_or(received);
        let mut steps: Steps<B> = self.others().map(|(to, _)| Step::Send { to: vec![to], data: data[to] }).collect();
        steps.extend(sent.map(|sent| Step::Copy { data: sent[self.rank], into: received[self.rank] }));
        steps.extend(self.others().map(|(_, from)| Step::Receive { from, into: received[from] }));
        steps
    }

    /// The data of all members, combined in their order along a binomial tree. Returns where they are at the first
    /// member. The two buffers are used on the way.
    pub fn fold<B: Copy>(self, own: B, spare: [B; 2]) -> (Steps<B>, B) {
        let Self { size, rank } = self;
        let (mut steps, mut folded) = (Vec::new(), own);
        let bits = std::iter::successors(Some(1), |bit| Some(bit * 2)).take_while(|bit| *bit < size);
        for (round, bit) in bits.enumerate() {
            if rank & bit != 0 {
                steps.push(Step::Send { to: vec![rank - bit], data: folded });
                break;
            }
            if rank + bit < size {
                let higher = spare[round % 2];
                steps.push(Step::Receive { from: rank + bit, into: higher });
                steps.push(Step::Combine { lower: folded, higher });
                folded = higher;
            }
        }
        (steps, folded)
    }

    /// The root gets the data of all members, combined.
    pub fn reduce<B: Copy>(self, root: usize, own: B, spare: [B; 2], result: B) -> Steps<B> {
        let (mut steps, folded) = self.fold(own, spare);
        match (self.rank == 0, self.rank == root) {
            (true, true) => steps.push(Step::Copy { data: folded, into: result }),
            (true, false) => steps.push(Step::Send { to: vec![root], data: folded }),
            (false, true) => steps.push(Step::Receive { from: 0, into: result }),
            (false, false) => {}
        }
        steps
    }

    /// All get the data of all members, combined.
    pub fn reduce_for_all<B: Copy>(self, own: B, spare: [B; 2], result: B) -> Steps<B> {
        let mut steps = self.reduce(0, own, spare, result);
        steps.extend(self.broadcast(0, result));
        steps
    }

    /// The data of all members up to this one, combined in their order; without its own if it is not `inclusive`, and
    /// then nothing at the first member. The two buffers are used on the way.
    pub fn prefix<B: Copy>(self, inclusive: bool, own: B, [before, with_own]: [B; 2], result: B) -> Steps<B> {
        let mut steps = vec![Step::Copy { data: own, into: with_own }];
        if self.rank > 0 {
            steps.push(Step::Receive { from: self.rank - 1, into: before });
            steps.push(Step::Combine { lower: before, higher: with_own });
        }
        if self.rank + 1 < self.size {
            steps.push(Step::Send { to: vec![self.rank + 1], data: with_own });
        }
        if inclusive {
            steps.push(Step::Copy { data: with_own, into: result });
        } else if self.rank > 0 {
            steps.push(Step::Copy { data: before, into: result });
        }
        steps
    }
}

/// The same steps among some members of a communicator, who are named by their places there.
pub fn among<B>(steps: Steps<B>, places: &[usize]) -> Steps<B> {
    let named = |step| match step {
        Step::Send { to, data } => Step::Send { to: to.into_iter().map(|place| places[place]).collect(), data },
        Step::Receive { from, into } => Step::Receive { from: places[from], into },
        other => other,
    };
    steps.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests;
