//! When the program's calls return, and with what.

use event_log::determinant::Rank;
use event_log::protocol::units::{Pattern, Request};

use crate::action::Action;
use crate::call::{Call, Outcome, Received};
use crate::decisions::What;
use crate::finding::Finding;
use crate::inbox::Ready;
use crate::machine::{Machine, Pending};
use crate::message::{Data, Message};
use crate::variant::{Rule, Variant};

impl<P: Data, V: Variant> Machine<P, V> {
    /// What the pending call returns, if it can return now.
    pub(super) fn attempt(&mut self, pending: &Pending<P>) -> Option<Outcome<P>> {
        match &pending.call {
            Call::Send { to, channel, payload } => {
                if !self.may_send(pending.since) {
                    return None;
                }
                for (replica, message) in self.outbox.send::<V>(*to, *channel, payload.clone(), &self.living) {
                    self.send(replica, message);
                }
                Some(Outcome::Done)
            }
            Call::Receive { pattern } => Some(Outcome::Posted(self.matching.post(*pattern))),
            Call::Wait { request } => self.complete(&[*request]),
            Call::WaitAny { requests } => match requests.as_slice() {
                [request] => self.complete(&[*request]),
                _ => self.wait_any(requests),
            },
            Call::Test { requests } => self.test(requests),
            Call::TestAll { requests } => self.test_all(requests),
            Call::Probe { pattern } => self.probe(*pattern),
            Call::Iprobe { pattern } => self.iprobe(*pattern),
            Call::Cancel { request } => self.cancel(*request),
            Call::Clock { own } => match self.told(|what| matches!(what, What::Clock(_))) {
                Some(What::Clock(time)) => Some(Outcome::Clock(time)),
                Some(_) => None,
                None if self.decides() => {
                    self.decide_call(What::Clock(*own));
                    Some(Outcome::Clock(*own))
                }
                None => None,
            },
            Call::Finalize => self.finalize(),
        }
    }

    /// Whether nothing has to be waited for before something leaves.
    fn may_send(&mut self, since: u64) -> bool {
        let others_know = self.decisions.are_known::<V>(since, self.living.of(self.me().rank));
        if !others_know && V::keeps(Rule::SendWaitsForDecisions) {
            return false;
        }
        let has_room = self.outbox.bytes() <= self.config.bound.kept || !V::keeps(Rule::SenderWaits);
        if !has_room {
            self.press();
        }
        has_room
    }

    /// Asks those for whom something is kept to tell what they have settled.
    fn press(&mut self) {
        for replica in self.outbox.waiting_for(&self.living) {
            if !self.pressed.contains(&replica) {
                self.pressed.push(replica);
                self.send(replica, Message::PleaseReport);
            }
        }
    }

    /// Decides about a call. Those that have found nothing before it are told first.
    fn decide_call(&mut self, what: What) {
        self.tell_polls();
        self.decide(what);
    }

    fn found_nothing(&mut self) -> Outcome<P> {
        if let Some(decision) = self.decisions.poll(self.config.polls_together) {
            self.tell(decision);
        }
        Outcome::Nothing
    }

    /// Takes the decision about this call, if there is one.
    fn told(&mut self, fits: impl Fn(What) -> bool) -> Option<What> {
        let what = self.decisions.front()?;
        if !fits(what) {
            let finding = Finding::Diverged { replica: self.me(), decision: self.decisions.last() };
            self.has_ended = true;
            self.out.push(Action::End(finding));
            return Some(what);
        }
        self.decisions.pop();
        Some(what)
    }

    /// Whether these receives have messages that may be given to the program now.
    fn are_complete(&mut self, requests: &[Request]) -> bool {
        let matched: Vec<Option<Ready>> = requests.iter().map(|request| self.matching.of(*request)).collect();
        if matched.iter().any(Option::is_none) {
            return false;
        }
        let messages = || matched.iter().flatten().map(|ready| (ready.envelope.source, ready.number));
        let (method, me) = (self.config.method, self.config.me);
        let receivers = self.living.of(me.rank);
        for (source, number) in messages() {
            let senders = self.living.of(source);
            let Some(copies) = self.inbox.copies(source, number) else { return false };
            if copies.usable::<V>(method, senders, receivers, me.index).is_none() {
                return false;
            }
        }
        let unsettled = self.inbox.unsettled_of(messages());
        unsettled == 0
            || self.inbox.unverified() + unsettled <= self.config.bound.unverified
            || !V::keeps(Rule::BoundHolds)
    }

    fn complete(&mut self, requests: &[Request]) -> Option<Outcome<P>> {
        if !self.are_complete(requests) {
            return None;
        }
        let received = requests.iter().map(|request| self.take(*request)).collect::<Option<Vec<_>>>()?;
        Some(Outcome::Received(received))
    }

    fn take(&mut self, request: Request) -> Option<Received<P>> {
        let Ready { envelope, number } = self.matching.of(request)?;
        let (method, me) = (self.config.method, self.me());
        let (senders, receivers) = (self.living.of(envelope.source), self.living.of(me.rank));
        let payload = self.inbox.copies(envelope.source, number)?.take::<V>(method, senders, receivers, me.index)?;
        self.inbox.note_used(envelope.source, number);
        self.matching.complete(request);
        Some(Received { request, envelope, payload })
    }

    /// The first of several receives that is complete, as the replica that decides sees it.
    fn choose(&mut self, requests: &[Request]) -> Option<Request> {
        requests.iter().copied().find(|request| self.are_complete(&[*request]))
    }

    fn wait_any(&mut self, requests: &[Request]) -> Option<Outcome<P>> {
        if let Some(What::Completed { request }) = self.decisions.front() {
            let outcome = self.complete(&[request])?;
            self.decisions.pop();
            return Some(outcome);
        }
        if self.decisions.front().is_some() {
            self.told(|_| false);
            return None;
        }
        if !self.decides() {
            return None;
        }
        let request = self.choose(requests)?;
        self.decide_call(What::Completed { request });
        self.complete(&[request])
    }

    fn test(&mut self, requests: &[Request]) -> Option<Outcome<P>> {
        match self.decisions.front() {
            Some(What::Completed { .. }) => return self.wait_any(requests),
            Some(_) => {
                self.told(|what| matches!(what, What::Nothing { .. }))?;
                return (!self.has_ended).then_some(Outcome::Nothing);
            }
            None => {}
        }
        if !self.decides() {
            return None;
        }
        match self.choose(requests) {
            Some(request) => {
                self.decide_call(What::Completed { request });
                self.complete(&[request])
            }
            None => Some(self.found_nothing()),
        }
    }

    fn test_all(&mut self, requests: &[Request]) -> Option<Outcome<P>> {
        match self.decisions.front() {
            Some(What::All) => {
                let outcome = self.complete(requests)?;
                self.decisions.pop();
                return Some(outcome);
            }
            Some(_) => {
                self.told(|what| matches!(what, What::Nothing { .. }))?;
                return (!self.has_ended).then_some(Outcome::Nothing);
            }
            None => {}
        }
        if !self.decides() {
            return None;
        }
        if self.are_complete(requests) {
            self.decide_call(What::All);
            self.complete(requests)
        } else {
            Some(self.found_nothing())
        }
    }

    /// A probe finds this message, unless its copies differ: then it has to be settled first.
    fn found(&mut self, ready: Ready) -> Option<Outcome<P>> {
        let (method, me) = (self.config.method, self.me());
        let (senders, receivers) = (self.living.of(ready.envelope.source), self.living.of(me.rank));
        let copies = self.inbox.copies(ready.envelope.source, ready.number)?;
        let length = copies.probe::<V>(method, senders, receivers, me.index)?;
        Some(Outcome::Found { envelope: ready.envelope, length })
    }

    fn find_told(&mut self, source: Rank, number: u64) -> Option<Outcome<P>> {
        let ready = self.matching.at(source, number)?;
        let found = self.found(ready)?;
        self.decisions.pop();
        Some(found)
    }

    /// What a probe finds at the replica that decides.
    fn find(&mut self, pattern: Pattern) -> Option<Outcome<P>> {
        let ready = self.matching.find(pattern)?;
        let found = self.found(ready)?;
        self.decide_call(What::Found { source: ready.envelope.source, number: ready.number });
        Some(found)
    }

    fn probe(&mut self, pattern: Pattern) -> Option<Outcome<P>> {
        if pattern.source.is_some() {
            return self.matching.find(pattern).and_then(|ready| self.found(ready));
        }
        match self.decisions.front() {
            Some(What::Found { source, number }) => self.find_told(source, number),
            Some(_) => {
                self.told(|_| false);
                None
            }
            None if self.decides() => self.find(pattern),
            None => None,
        }
    }

    fn iprobe(&mut self, pattern: Pattern) -> Option<Outcome<P>> {
        match self.decisions.front() {
            Some(What::Found { source, number }) => self.find_told(source, number),
            Some(_) => {
                self.told(|what| matches!(what, What::Nothing { .. }))?;
                (!self.has_ended).then_some(Outcome::Nothing)
            }
            None if self.decides() => Some(self.find(pattern).unwrap_or_else(|| self.found_nothing())),
            None => None,
        }
    }

    fn cancel(&mut self, request: Request) -> Option<Outcome<P>> {
        match self.told(|what| matches!(what, What::Cancelled { request: told, .. } if told == request)) {
            Some(What::Cancelled { is_cancelled, .. }) => {
                if is_cancelled {
                    self.matching.take_back(request);
                }
                Some(Outcome::Cancelled(is_cancelled))
            }
            Some(_) => None,
            None if self.decides() => {
                let is_cancelled = self.matching.withdraw(request);
                self.decide_call(What::Cancelled { request, is_cancelled });
                Some(Outcome::Cancelled(is_cancelled))
            }
            None => None,
        }
    }

    fn finalize(&mut self) -> Option<Outcome<P>> {
        self.is_ending = true;
        self.report();
        let is_verified = self.inbox.is_settled() && self.outbox.messages() == 0;
        let others_know = self.decisions.are_known::<V>(self.decisions.last(), self.living.of(self.me().rank));
        if is_verified && others_know || !V::keeps(Rule::FinalizeWaits) {
            return Some(self.finalized());
        }
        self.press();
        None
    }
}
