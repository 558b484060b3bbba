//! Runs a member's questions to the arbiter: whether its suspicion holds, whether there is contact at all, its request
//! to be declared dead, and its report that its ranks are ready. Each is repeated until it is answered.
//!
//! Every message of the arbiter proves the contact. A member that receives nothing for `confirm` stops: it cannot
//! distinguish a dead arbiter from a partitioned network, and the other side will declare it dead. After an eighth of
//! that time it holds its ranks, because they would otherwise finish without the other nodes. It broadcasts its doubt,
//! so that the other nodes on its side need not wait for a suspicion of their own. Not all of them need to receive it:
//! in ring order the cut-off side consists of runs of neighbours. The first of each run has its emitter on the other
//! side and so comes to doubt by itself, and the others of the run are linked to it by the jumps of +-1 of the
//! broadcast graph.
//!
//! A member that holds its ranks may be cut off itself, and then the silence of its emitter means nothing. It contacts
//! the arbiter, and suspects no node until it has watched for one more timeout after the hold. That happens once until
//! the emitter reports: if answers are so slow that holds repeat, dead nodes must still be suspected.
//!
//! Only the arbiter's message ends a hold. If the suspicion behind it is settled otherwise, for example because the
//! emitter reports, the member goes on probing the arbiter, and stops without an answer.
//!
//! A restarted member does not know how long the silence has lasted, and doubts of other nodes reached the earlier
//! incarnation. So it probes the arbiter at once, and holds its ranks soon; at once if the earlier incarnation held
//! them.

use crate::action::{Action, StopReason};
use crate::config::Config;
use crate::message::{EndReason, Message, Subject};
use crate::units::{NodeId, Time};

use super::Member;

/// Pending questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Inquiries {
    /// The emitter is suspected, and the arbiter has not declared it dead yet.
    suspicion: Option<Suspicion>,
    /// A node doubts the contact with the arbiter, or this member did so when it held its ranks or was restarted: it
    /// checks its own contact.
    probe: Option<Probe>,
    /// This member requests to be declared dead, with this message.
    farewell: Option<(Message, Repeated)>,
    /// When to repeat that the ranks are ready.
    ready_at: Option<Time>,
    /// Whether the ranks are held.
    held: bool,
}

/// A question that is sent at `next` and given up at `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Repeated {
    next: Time,
    until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Suspicion {
    question: Repeated,
    /// When to hold the ranks and to broadcast the doubt; `None` once done, until the arbiter answers.
    doubt_at: Option<Time>,
}

/// A doubt without a suspicion, until the arbiter answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Probe {
    question: Repeated,
    /// When to hold the ranks; `None` once done.
    hold_at: Option<Time>,
}

/// Time without a message of the arbiter after which a probing member holds its ranks.
fn certainty(confirm: Time) -> Time {
    confirm / 8
}

/// Time that a member gives the arbiter after another node's doubt. Together with that node's time until the doubt it
/// is `confirm`.
fn patience(confirm: Time) -> Time {
    confirm - certainty(confirm)
}

impl Repeated {
    /// Whether to ask now.
    fn due(&mut self, now: Time, resend: Time) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now.saturating_add(resend);
        }
        due
    }

    fn deadline(self) -> Time {
        self.next.min(self.until)
    }
}

impl Suspicion {
    /// Extends the times after a message of the arbiter at `now`, or after a pause; for `quiet` the arbiter may have
    /// nothing to say.
    fn extend(&mut self, now: Time, confirm: Time, quiet: Time) {
        self.question.until = now.saturating_add(confirm);
        // The contact may be lost again, and nodes that shared the last doubt have settled it, too.
        self.doubt_at = Some(now.saturating_add(certainty(confirm)).saturating_add(quiet));
    }
}

impl Inquiries {
    /// The questions of a member that begins at `now`: one if it had an earlier incarnation, and there is an arbiter.
    pub fn new(config: &Config, now: Time) -> Inquiries {
        let asks = config.incarnation > 0 && config.arbiter.is_some_and(|arbiter| arbiter != config.me);
        // The arbiter may be restarting, too.
        let until = now.saturating_add(config.timeout).saturating_add(config.confirm);
        // So that an answer to the second question arrives earlier.
        let hold_at = now.saturating_add(certainty(config.confirm).min(config.resend + config.resend / 2));
        let probe = Probe { question: Repeated { next: now, until }, hold_at: Some(hold_at) };
        Inquiries { probe: asks.then_some(probe), ..Inquiries::default() }
    }

    pub fn deadline(&self) -> Time {
        let suspicion =
            self.suspicion.map(|suspicion| suspicion.question.deadline().min(suspicion.doubt_at.unwrap_or(Time::MAX)));
        let probe = self.probe.map(|probe| probe.question.deadline().min(probe.hold_at.unwrap_or(Time::MAX)));
        let farewell = self.farewell.as_ref().map(|(_, question)| question.deadline());
        let due = [suspicion, probe, farewell, self.ready_at];
        due.into_iter().flatten().min().unwrap_or(Time::MAX)
    }

    /// Restarts all waits.
    pub fn forgive(&mut self, now: Time, confirm: Time) {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.extend(now, confirm, Time::ZERO);
        }
        if let Some(probe) = &mut self.probe {
            probe.question.until = now.saturating_add(patience(confirm)).max(probe.question.until);
            if let Some(at) = &mut probe.hold_at {
                *at = now.saturating_add(certainty(confirm));
            }
        }
        if let Some((_, question)) = &mut self.farewell {
            question.until = now.saturating_add(confirm);
        }
    }

    /// Whether this node leaves in order.
    pub fn leaves(&self) -> bool {
        matches!(self.farewell, Some((Message::Leave, _)))
    }

    /// Handles a new observer, which has not been asked.
    pub fn ask_again(&mut self, now: Time) {
        if let Some((_, question)) = &mut self.farewell {
            question.next = now;
        }
    }

    /// Ends the suspicion after the arbiter's answer.
    pub fn suspicion_refuted(&mut self) {
        self.suspicion = None;
    }

    /// Whether the emitter is suspected.
    pub fn suspects(&self) -> bool {
        self.suspicion.is_some()
    }

    /// Notes that the arbiter knows that the ranks are ready.
    pub fn readiness_heard(&mut self) {
        self.ready_at = None;
    }
}

impl Member {
    /// Requests to be declared dead, because this node's runtime daemon has died.
    ///
    /// The request to the arbiter is repeated; this member stops once it is answered or after `confirm`. Without an
    /// arbiter the observer gets it instead. The arbiter itself ends the job: the launcher is lost.
    pub fn resign(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.config.is_arbiter() {
            self.end(now, EndReason::LauncherLost, out);
        } else if self.wake(now) {
            self.say_farewell(now, Message::Suspect { node: self.config.me }, out);
        }
    }

    pub(super) fn say_farewell(&mut self, now: Time, message: Message, out: &mut Vec<Action>) {
        if self.inquiries.farewell.is_none() {
            let until = now.saturating_add(self.config.confirm);
            self.inquiries.farewell = Some((message, Repeated { next: now, until }));
            self.tick_inquiries(now, out);
        }
    }

    /// Reports that every rank of this node has passed MPI_Init to the arbiter until it acknowledges. Heartbeats come
    /// at their full rate from now on.
    ///
    /// Without an arbiter there is no report.
    pub fn ready(&mut self, now: Time, out: &mut Vec<Action>) {
        if !self.wake(now) {
            return;
        }
        self.speed_up(now);
        if self.config.is_arbiter() {
            self.note_ready(self.config.me, out);
        } else if self.config.arbiter.is_some() {
            self.inquiries.ready_at = Some(now);
            self.tick_inquiries(now, out);
        }
    }

    /// T3: handles an emitter that has been silent for the whole timeout, and candidates that have been, too. A node
    /// that may declare them dead does so; others ask.
    pub(super) fn suspect_emitter(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.links.emitter().is_none() {
            return;
        }
        if self.may_declare() {
            for suspect in self.links.suspects(now) {
                self.try_suspect(now, suspect, self.config.me, out);
            }
            return;
        }
        let confirm = self.config.confirm;
        let question = Repeated { next: now, until: now.saturating_add(confirm) };
        let doubt_at = Some(now.saturating_add(certainty(confirm)));
        self.inquiries.suspicion = Some(Suspicion { question, doubt_at });
    }

    /// Handles a message of the arbiter. Returns whether it ends a hold; the message itself is handled first, because
    /// it may be the end.
    pub(super) fn on_contact(&mut self, now: Time, out: &mut Vec<Action>) -> bool {
        self.inquiries.probe = None;
        let was_held = std::mem::take(&mut self.inquiries.held);
        // A timer that is about to expire has counted the time of the disconnection, too.
        let is_excused = was_held && self.links.excuse(now, self.config.timeout);
        if was_held {
            self.links.ask_anew(now, &self.config);
        }
        let Some(suspicion) = &mut self.inquiries.suspicion else {
            return was_held;
        };
        // If the question is not repeated, the arbiter's next message is its verdict, after the trial.
        let quiet = if self.config.lossless { self.config.trial } else { Time::ZERO };
        suspicion.extend(now, self.config.confirm, quiet);
        if self.links.emitter() == self.config.arbiter {
            // The suspect itself was received: only its heartbeats get lost.
            self.inquiries.suspicion = None;
            self.watch_again(now, out);
        } else if is_excused {
            // The suspicion stays, because the contact may be lost again; it is no accusation meanwhile.
            self.watch_again(now, out);
        }
        was_held
    }

    /// Handles another node's doubt. If the network is partitioned, this member may be on the same side.
    pub(super) fn on_doubt(&mut self, now: Time, source: NodeId, out: &mut Vec<Action>) {
        let nobody_to_ask = self.config.arbiter.is_none_or(|arbiter| arbiter == self.config.me);
        if nobody_to_ask || self.dead.contains(source) {
            return;
        }
        let patience = patience(self.config.confirm);
        if let Some(probe) = &mut self.inquiries.probe {
            // It may have given the arbiter longer than other nodes on its side do.
            probe.question.until = probe.question.until.min(now.saturating_add(patience));
        } else {
            // Also with a suspicion of its own, which may turn out to be wrong.
            self.probe_arbiter(now, patience, out);
        }
    }

    /// Holds the ranks until the arbiter answers, because the earlier incarnation held them. Call it at the start.
    pub fn keep_holding(&mut self, out: &mut Vec<Action>) {
        if let Some(probe) = &mut self.inquiries.probe {
            probe.hold_at = None;
            self.hold(out);
        }
    }

    fn probe_arbiter(&mut self, now: Time, patience: Time, out: &mut Vec<Action>) {
        let confirm = self.config.confirm;
        let question =
            Repeated { next: now.saturating_add(self.config.resend_after()), until: now.saturating_add(patience) };
        self.inquiries.probe = Some(Probe { question, hold_at: Some(now.saturating_add(certainty(confirm))) });
        self.send_to_arbiter(Message::Probe, out);
    }

    /// Settles the suspicion, because the emitter reported, or its death is known. That was not the arbiter's message,
    /// and only that ends a hold.
    pub(super) fn settle_suspicion(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(suspicion) = self.inquiries.suspicion.take() else {
            return;
        };
        if self.inquiries.held && self.inquiries.probe.is_none() {
            // The arbiter's time continues. If it has expired, a question whose answer may be arriving is repeated once
            // more.
            let rest = suspicion.question.until.saturating_sub(now);
            self.probe_arbiter(now, rest.max(certainty(self.config.confirm)), out);
        }
    }

    fn hold(&mut self, out: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.inquiries.held, true) {
            out.push(Action::Hold);
        }
    }

    pub(super) fn tick_inquiries(&mut self, now: Time, out: &mut Vec<Action>) {
        let resend = self.config.resend_after();
        let given_up = [
            self.inquiries.suspicion.map(|suspicion| suspicion.question.until),
            self.inquiries.probe.map(|probe| probe.question.until),
            self.inquiries.farewell.as_ref().map(|(_, question)| question.until),
        ];
        if given_up.into_iter().flatten().any(|until| now >= until) {
            self.stop(StopReason::CutOff, out);
            return;
        }
        if let Some(suspicion) = &mut self.inquiries.suspicion {
            let asks = suspicion.question.due(now, resend);
            let doubts = suspicion.doubt_at.take_if(|at| now >= *at).is_some();
            if asks {
                self.ask_about_emitter(now, out);
            }
            if doubts {
                self.hold(out);
                self.broadcast(now, Subject::Doubt, out);
            }
        }
        if let Some(probe) = &mut self.inquiries.probe {
            let asks = probe.question.due(now, resend);
            if probe.hold_at.take_if(|at| now >= *at).is_some() {
                self.hold(out);
            }
            if asks {
                self.send_to_arbiter(Message::Probe, out);
            }
        }
        if let Some((message, question)) = &mut self.inquiries.farewell {
            if question.due(now, resend) {
                let judge = self.config.arbiter.or(self.links.observer());
                out.extend(judge.map(|to| Action::Send { to, message: message.clone() }));
            }
        }
        if self.inquiries.ready_at.is_some_and(|at| now >= at) {
            self.inquiries.ready_at = Some(now.saturating_add(resend));
            self.send_to_arbiter(Message::Ready, out);
        }
    }

    fn ask_about_emitter(&self, now: Time, out: &mut Vec<Action>) {
        let Some(node) = self.links.emitter() else {
            return;
        };
        // About itself the arbiter is only probed.
        let about_arbiter = self.config.arbiter == Some(node);
        let may_be_cut_off = self.inquiries.held && !self.links.is_excused() || self.links.waits();
        if about_arbiter || may_be_cut_off {
            self.send_to_arbiter(Message::Probe, out);
            return;
        }
        for node in self.links.suspects(now) {
            self.send_to_arbiter(Message::Suspect { node }, out);
        }
    }

    fn send_to_arbiter(&self, message: Message, out: &mut Vec<Action>) {
        out.extend(self.config.arbiter.map(|to| Action::Send { to, message }));
    }
}
