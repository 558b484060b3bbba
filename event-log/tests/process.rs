//! One rank's machine, step by step: what it does at each call, and what it refuses.

use event_log::determinant::{Determinant, Event, Rank};
use event_log::protocol::action::{Action, Input};
use event_log::protocol::call::{Call, Gathered, Outcome, Refusal};
use event_log::protocol::checkpoint::{Checkpoint, Unreadable};
use event_log::protocol::collective_log::{Completed, Share};
use event_log::protocol::counters::Counts;
use event_log::protocol::error::Error;
use event_log::protocol::message::Message;
use event_log::protocol::pessimism::Mode;
use event_log::protocol::process::{Config, Process};
use event_log::protocol::sender_log::{Limit, Policy};
use event_log::protocol::units::{Channel, Envelope, Pattern, Payload};

const WORLD: u32 = 0;
const CHANNEL: Channel = Channel { communicator: WORLD, tag: 5 };
const CONFIG: Config = Config { rank: 0, ranks: 3, mode: Mode::BeforeNextSend, limit: Limit::NONE };

/// Rank 0 of three.
#[derive(Clone)]
struct Machine(Process);

impl Machine {
    fn new(config: Config) -> Self {
        let mut machine = Self(Process::new(config));
        machine.call(Call::AddCommunicator { communicator: WORLD, members: vec![0, 1, 2] });
        machine
    }

    fn recovered(bytes: &[u8], determinants: Vec<Determinant>) -> Self {
        let (checkpoint, mut out) = (Checkpoint::decode(bytes).expect("it is whole"), Vec::new());
        let since = checkpoint.last_determinant;
        let mut machine = Self(Process::recover(CONFIG, Some(checkpoint), &mut out).expect("it is of this rank"));
        assert_eq!(out, [Action::Fetch { since }]);
        machine.step(Input::Repaired);
        machine.step(Input::Fetched(determinants));
        machine
    }

    fn try_step(&mut self, input: Input) -> Result<Vec<Action>, Error> {
        let mut out = Vec::new();
        self.0.step(input, &mut out).map(|()| out)
    }

    fn step(&mut self, input: Input) -> Vec<Action> {
        self.try_step(input).expect("the machine goes on")
    }

    fn call(&mut self, call: Call) -> Vec<Action> {
        self.step(Input::Call(call))
    }

    fn send(&mut self, to: Rank, byte: u8) -> Vec<Action> {
        self.call(Call::Send { to, channel: CHANNEL, payload: payload(byte) })
    }

    /// A receive is posted and its message comes.
    fn receive(&mut self, request: u64, pattern: Pattern, source: Rank) -> Vec<Action> {
        self.call(Call::Receive { pattern });
        self.step(Input::Completed { request, envelope: envelope(source) })
    }

    /// A durable checkpoint.
    fn checkpoint(&mut self) -> (Vec<u8>, Vec<Action>) {
        assert_eq!(self.call(Call::Checkpoint), [Action::Capture]);
        let mut taken = self.step(Input::Captured { state: payload(9) });
        let Action::Store { checkpoint, bytes } = taken.remove(0) else { panic!("{taken:?}") };
        assert_eq!(taken, [Action::Return(Outcome::CheckpointTaken(checkpoint))]);
        (bytes, self.step(Input::Durable { checkpoint }))
    }

    fn counters_from(&mut self, from: Rank, received: Counts, completed: Completed) -> Vec<Action> {
        self.step(Input::Peer { from, message: Message::Counters { received, completed } })
    }
}

fn payload(byte: u8) -> Payload {
    vec![byte; 100].into()
}

fn envelope(source: Rank) -> Envelope {
    Envelope { source, channel: CHANNEL }
}

fn from(source: Option<Rank>) -> Pattern {
    Pattern { communicator: WORLD, source, tag: Some(CHANNEL.tag) }
}

fn transmit(to: Rank, number: u64, byte: u8) -> Action {
    Action::Transmit { to, channel: CHANNEL, number, payload: payload(byte) }
}

fn done() -> Action {
    Action::Return(Outcome::Done)
}

fn received(request: u64, source: Rank) -> Action {
    Action::Return(Outcome::Received { request, envelope: envelope(source) })
}

fn determinant(id: u64, event: Event, source: Rank, request: u64, repetitions: u64) -> Determinant {
    Determinant { id, event, communicator: WORLD, source, tag: CHANNEL.tag, request, repetitions }
}

fn counts(messages: u64) -> Counts {
    let mut counts = Counts::default();
    (0..messages).for_each(|_| _ = counts.add(CHANNEL));
    counts
}

#[test]
fn only_outcomes_that_depend_on_time_are_recorded() {
    let mut machine = Machine::new(CONFIG);
    assert_eq!(machine.receive(1, from(Some(1)), 1), []);
    assert_eq!(machine.call(Call::Wait { request: 1 }), [received(1, 1)]);
    let any = machine.receive(2, from(None), 2);
    assert_eq!(any, [Action::Save(determinant(1, Event::Receive, 2, 2, 1))]);
    assert_eq!(machine.call(Call::WaitAny { requests: vec![2] }), [received(2, 2)]);
    machine.call(Call::Probe { pattern: from(Some(1)) });
    assert_eq!(machine.step(Input::Seen(Some(envelope(1)))), [Action::Return(Outcome::Found(envelope(1)))]);
    machine.call(Call::Probe { pattern: from(None) });
    let probed = Action::Save(determinant(2, Event::Probe, 1, 0, 1));
    assert_eq!(machine.step(Input::Seen(Some(envelope(1)))), [probed, Action::Return(Outcome::Found(envelope(1)))]);
}

#[test]
fn a_poll_is_recorded_when_it_finds_something_with_the_number_of_calls() {
    let mut machine = Machine::new(CONFIG);
    for _ in 0..2 {
        machine.call(Call::Iprobe { pattern: from(None) });
        assert_eq!(machine.step(Input::Seen(None)), [Action::Return(Outcome::Nothing)]);
    }
    machine.call(Call::Iprobe { pattern: from(None) });
    let found = machine.step(Input::Seen(Some(envelope(2))));
    let saved = Action::Save(determinant(1, Event::Iprobe, 2, 0, 3));
    assert_eq!(found, [saved, Action::Return(Outcome::Found(envelope(2)))]);
}

#[test]
fn a_send_waits_for_determinants_and_records_polls_that_found_nothing() {
    let mut machine = Machine::new(CONFIG);
    machine.call(Call::Receive { pattern: from(Some(1)) });
    assert_eq!(machine.call(Call::Test { requests: vec![1] }), [Action::Return(Outcome::Nothing)]);
    let waits = machine.send(1, 1);
    let polls = Determinant { tag: 0, ..determinant(1, Event::Send, 0, 0, 2) };
    assert_eq!(waits, [Action::Save(polls)]);
    assert_eq!(machine.step(Input::Stable { up_to: 1 }), [transmit(1, 1, 1), done()]);
    assert_eq!(machine.send(1, 2), [transmit(1, 2, 2), done()]);
}

#[test]
fn in_the_synchronous_mode_the_outcome_itself_waits() {
    let mut machine = Machine::new(Config { mode: Mode::Synchronous, ..CONFIG });
    machine.receive(1, from(None), 1);
    assert_eq!(machine.call(Call::Wait { request: 1 }), []);
    assert_eq!(machine.step(Input::Stable { up_to: 1 }), [received(1, 1)]);
}

#[test]
fn a_test_of_all_returns_all_or_nothing() {
    let mut machine = Machine::new(CONFIG);
    machine.call(Call::Receive { pattern: from(Some(1)) });
    machine.call(Call::Receive { pattern: from(Some(2)) });
    machine.step(Input::Completed { request: 2, envelope: envelope(2) });
    let test = || Call::TestAll { requests: vec![1, 2] };
    assert_eq!(machine.call(test()), [Action::Return(Outcome::Nothing)]);
    machine.step(Input::Completed { request: 1, envelope: envelope(1) });
    let all = Outcome::ReceivedAll(vec![(1, envelope(1)), (2, envelope(2))]);
    assert_eq!(machine.call(test()).last(), Some(&Action::Return(all)));
}

#[test]
fn determinants_are_trimmed_and_garbage_is_told_when_the_checkpoint_is_durable_and_not_before() {
    let mut machine = Machine::new(CONFIG);
    machine.receive(1, from(None), 1);
    machine.call(Call::Wait { request: 1 });
    assert_eq!(machine.call(Call::Checkpoint), []);
    assert_eq!(machine.step(Input::Stable { up_to: 1 }), [Action::Capture]);
    machine.step(Input::Captured { state: payload(9) });
    assert_eq!(machine.call(Call::CollectGarbage), [done()]);
    assert_eq!(machine.step(Input::Durable { checkpoint: 1 }), [Action::Trim { up_to: 1 }]);
    let garbage = |to, received| {
        let message = Message::Garbage { received: counts(received), completed: Completed::new() };
        Action::Tell { to, message }
    };
    assert_eq!(machine.call(Call::CollectGarbage), [garbage(1, 1), garbage(2, 0), done()]);
}

/// A full disk, say.
#[test]
fn after_a_checkpoint_that_was_not_stored_the_one_before_stays_the_last() {
    let mut machine = Machine::new(CONFIG);
    machine.checkpoint();
    machine.receive(1, from(Some(1)), 1);
    machine.call(Call::Wait { request: 1 });
    machine.call(Call::Checkpoint);
    machine.step(Input::Captured { state: payload(9) });
    assert_eq!(machine.call(Call::Checkpoint), [Action::Return(Outcome::CheckpointRefused(Refusal::Writing))]);
    assert_eq!(machine.step(Input::NotStored { checkpoint: 2 }), []);
    let told = machine.call(Call::CollectGarbage);
    let message = Message::Garbage { received: Counts::default(), completed: Completed::new() };
    assert_eq!(told[0], Action::Tell { to: 1, message }, "what the second one has is not garbage");
    machine.checkpoint();
}

#[test]
fn a_replacement_from_before_the_checkpoint_that_made_messages_garbage_is_refused() {
    let mut machine = Machine::new(CONFIG);
    machine.send(1, 1);
    machine.send(1, 2);
    let message = Message::Garbage { received: counts(1), completed: Completed::new() };
    machine.step(Input::Peer { from: 1, message });
    machine.step(Input::Repaired);
    assert_eq!(machine.clone().counters_from(1, counts(1), Completed::new()), [transmit(1, 2, 2)]);
    let message = Message::Counters { received: Counts::default(), completed: Completed::new() };
    assert_eq!(machine.try_step(Input::Peer { from: 1, message }), Err(Error::Collected { rank: 1 }));
}

#[test]
fn a_replacement_repeats_what_was_recorded_and_sends_only_what_its_peers_lack() {
    let mut machine = Machine::new(CONFIG);
    machine.send(1, 1);
    let (bytes, _) = machine.checkpoint();
    let recorded = vec![determinant(1, Event::Receive, 2, 1, 1), determinant(2, Event::Iprobe, 1, 0, 2)];
    let mut machine = Machine::recovered(&bytes, recorded);
    assert!(machine.0.is_replaying());
    // Rank 1 has the first message and a second one, which is made again here; rank 2 has none.
    assert_eq!(machine.counters_from(1, counts(2), Completed::new()), []);
    assert_eq!(machine.send(1, 2), [done()]);
    assert_eq!(machine.send(1, 3), [transmit(1, 3, 3), done()]);
    let posted = machine.call(Call::Receive { pattern: from(None) });
    assert_eq!(posted[0], Action::Post { request: 1, pattern: from(Some(2)) });
    assert_eq!(machine.call(Call::Checkpoint), [Action::Return(Outcome::CheckpointRefused(Refusal::Replaying))]);
    assert_eq!(machine.call(Call::Iprobe { pattern: from(None) }), [Action::Return(Outcome::Nothing)]);
    let look = Action::Look { pattern: from(Some(1)), wait: true };
    assert_eq!(machine.call(Call::Iprobe { pattern: from(None) }), [look]);
    assert!(!machine.0.is_replaying());
    machine.step(Input::Seen(Some(envelope(1))));
    machine.step(Input::Completed { request: 1, envelope: envelope(2) });
    // A receive with the arguments of the probe gets what it found; new determinants follow those that were fetched.
    let posted = machine.call(Call::Receive { pattern: from(None) });
    assert_eq!(posted[0], Action::Post { request: 2, pattern: from(Some(1)) });
    assert_eq!(machine.step(Input::Completed { request: 2, envelope: envelope(1) }), []);
    let new = machine.receive(3, from(None), 1);
    assert_eq!(new, [Action::Save(determinant(3, Event::Receive, 1, 3, 1))]);
}

#[test]
fn after_a_repair_messages_wait_until_their_receiver_has_told_what_it_has() {
    let mut machine = Machine::new(CONFIG);
    machine.send(1, 1);
    machine.call(Call::Receive { pattern: from(None) });
    let repaired = machine.step(Input::Repaired);
    assert!(repaired.contains(&Action::Post { request: 1, pattern: from(None) }));
    assert_eq!(machine.send(1, 2), [done()]);
    assert_eq!(machine.counters_from(1, counts(0), Completed::new()), [transmit(1, 1, 1), transmit(1, 2, 2)]);
    // The peer is replaced again and has less.
    machine.step(Input::Repaired);
    assert_eq!(machine.counters_from(1, counts(1), Completed::new()), [transmit(1, 2, 2)]);
}

#[test]
fn an_operation_that_somebody_has_completed_is_made_of_what_members_keep() {
    let mut machine = Machine::new(CONFIG);
    let call = |alike| {
        let (communicator, contribution, needs) = (WORLD, payload(1), vec![0, 1, 2]);
        Call::Collective { communicator, contribution, needs, alike }
    };
    let entered = machine.call(call(true));
    assert_eq!(entered, [Action::Enter { communicator: WORLD, sequence: 1, contribution: payload(1) }]);
    machine.step(Input::Repaired);
    assert_eq!(machine.counters_from(1, counts(0), Completed::from([(WORLD, 2)])), []);
    let want = |to, sequence| Action::Tell { to, message: Message::Want { communicator: WORLD, sequence } };
    assert_eq!(machine.counters_from(2, counts(0), Completed::new()), [want(1, 1), want(2, 1)]);
    let give =
        |from, sequence, share| Input::Peer { from, message: Message::Give { communicator: WORLD, sequence, share } };
    let result = machine.step(give(1, 1, Share::Result(payload(7))));
    assert_eq!(result, [Action::Return(Outcome::Collective(Gathered::Result(payload(7))))]);
    // A member asks for the next one before this rank has begun it.
    let wanted = Input::Peer { from: 2, message: Message::Want { communicator: WORLD, sequence: 2 } };
    assert_eq!(machine.step(wanted), []);
    let share = Share::Contribution(payload(1));
    let given = Action::Tell { to: 2, message: Message::Give { communicator: WORLD, sequence: 2, share } };
    assert_eq!(machine.call(call(false)), [given, want(1, 2), want(2, 2)]);
    machine.step(give(1, 2, Share::Contribution(payload(2))));
    let all = machine.step(give(2, 2, Share::Contribution(payload(3))));
    let contributions = (0..3).zip([1, 2, 3].map(payload)).collect();
    assert_eq!(all, [Action::Return(Outcome::Collective(Gathered::Contributions(contributions)))]);
    let third = machine.call(call(true));
    assert_eq!(third, [Action::Enter { communicator: WORLD, sequence: 3, contribution: payload(1) }]);
}

/// A limit of about `messages` of the messages of these tests.
fn limit(messages: u64, policy: Policy) -> Config {
    let mut machine = Machine::new(CONFIG);
    machine.send(1, 0);
    Config { limit: Limit { bytes: machine.0.log_bytes() * messages, policy }, ..CONFIG }
}

#[test]
fn a_full_log_asks_for_a_checkpoint_in_time_and_waits_for_garbage_collection() {
    let mut machine = Machine::new(limit(4, Policy::Wait));
    machine.send(1, 1);
    machine.send(1, 2);
    let please = || Action::Tell { to: 1, message: Message::PleaseCheckpoint };
    assert_eq!(machine.send(1, 3), [please(), transmit(1, 3, 3), done()]);
    machine.send(1, 4);
    assert_eq!(machine.0.log_bytes(), limit(4, Policy::Wait).limit.bytes);
    // It asks once more when it is full.
    assert_eq!(machine.send(1, 5), [please()]);
    assert_eq!(machine.step(Input::Stable { up_to: 0 }), []);
    let garbage = Message::Garbage { received: counts(3), completed: Completed::new() };
    assert_eq!(machine.step(Input::Peer { from: 1, message: garbage }), [transmit(1, 5, 5), done()]);
    assert_eq!(machine.0.log_messages(), 2);
}

#[test]
fn a_full_log_that_nobody_waits_for_ends_protection_once_and_a_death_is_then_an_error() {
    let mut machine = Machine::new(limit(1, Policy::EndProtection));
    machine.send(1, 1);
    let bytes = machine.0.log_bytes();
    let ended = Action::ProtectionEnded { bytes: 2 * bytes, limit: bytes };
    assert_eq!(machine.send(1, 2), [ended, transmit(1, 2, 2), done()]);
    assert_eq!((machine.0.log_bytes(), machine.0.is_protected()), (0, false));
    assert_eq!(machine.send(1, 3), [transmit(1, 3, 3), done()]);
    assert_eq!(machine.receive(1, from(None), 1), []);
    assert_eq!(machine.call(Call::Checkpoint), [Action::Return(Outcome::CheckpointRefused(Refusal::Unprotected))]);
    assert_eq!(machine.try_step(Input::Repaired), Err(Error::Unprotected));
}

#[test]
fn a_caller_that_has_waited_too_long_ends_protection_but_not_before_a_repair_is_complete() {
    let mut machine = Machine::new(limit(1, Policy::Wait));
    machine.send(1, 1);
    machine.step(Input::Repaired);
    let please = Action::Tell { to: 1, message: Message::PleaseCheckpoint };
    assert_eq!(machine.send(1, 2), [please]);
    assert_eq!(machine.step(Input::StopWaitingForRoom), []);
    assert_eq!(machine.counters_from(1, counts(0), Completed::new()), [transmit(1, 1, 1)]);
    let after = machine.counters_from(2, counts(0), Completed::new());
    assert!(matches!(after[..], [Action::ProtectionEnded { .. }, Action::Transmit { number: 2, .. }, _]), "{after:?}");
}

#[test]
fn what_a_caller_mixes_up_is_an_error() {
    let out_of_turn = |result| matches!(result, Err(Error::OutOfTurn { .. }));
    let mut machine = Machine::new(CONFIG);
    assert!(out_of_turn(machine.try_step(Input::Seen(None))));
    assert!(out_of_turn(machine.try_step(Input::CollectiveDone { result: payload(1) })));
    assert!(out_of_turn(machine.try_step(Input::Captured { state: payload(1) })));
    assert!(out_of_turn(machine.try_step(Input::Fetched(vec![]))));
    let unknown = machine.try_step(Input::Call(Call::Wait { request: 7 }));
    assert_eq!(unknown, Err(Error::UnknownRequest { request: 7 }));
    let nobody = machine.try_step(Input::Call(Call::Send { to: 3, channel: CHANNEL, payload: payload(1) }));
    assert_eq!(nobody, Err(Error::UnknownRank { rank: 3, ranks: 3 }));
    let (communicator, contribution) = (7, payload(1));
    let nowhere = Call::Collective { communicator, contribution, needs: vec![], alike: false };
    assert_eq!(machine.try_step(Input::Call(nowhere)), Err(Error::UnknownCommunicator { communicator }));
    machine.call(Call::Checkpoint);
    assert!(out_of_turn(machine.try_step(Input::Stable { up_to: 0 })));
}

#[test]
fn a_checkpoint_of_another_rank_and_a_list_with_a_gap_are_refused() {
    let (bytes, _) = Machine::new(CONFIG).checkpoint();
    let checkpoint = || Some(Checkpoint::decode(&bytes).expect("it is whole"));
    let mut out = Vec::new();
    let other =
        Process::<event_log::protocol::variant::Sound>::recover(Config { rank: 1, ..CONFIG }, checkpoint(), &mut out);
    assert!(matches!(other, Err(Error::Checkpoint(Unreadable::OtherRank { rank: 0, ranks: 3 }))));
    let mut machine = Machine(Process::recover(CONFIG, checkpoint(), &mut out).expect("it is of this rank"));
    let early = machine.try_step(Input::Fetched(vec![]));
    assert_eq!(early, Err(Error::OutOfTurn { what: "the event logger's list" }));
    machine.step(Input::Repaired);
    let gap = machine.try_step(Input::Fetched(vec![determinant(2, Event::Probe, 1, 0, 1)]));
    assert_eq!(gap, Err(Error::Gap { expected: 1, found: 2 }));
}
