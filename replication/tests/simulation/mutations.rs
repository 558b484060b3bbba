//! The simulation sees each rule of the protocol: with one broken, a job fails.

use std::cell::Cell;

use replication::variant::{Rule, Variant};

use crate::check::job;
use crate::setting::Setting;
use crate::{BOTH, CLEAN, DEATHS, FLIPS, THREE};

/// Seeds that are tried.
const MOST: u64 = 6_000;

thread_local! {
    static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
}

/// Breaks the rule that this thread's test names. One type for all rules: each further one is compiled anew.
#[derive(Debug)]
struct Broken;

impl Variant for Broken {
    fn keeps(rule: Rule) -> bool {
        BROKEN.get() != Some(rule)
    }
}

fn expect_failure(broken: Rule, setting: Setting) {
    BROKEN.set(Some(broken));
    let failure = (0..MOST).find_map(|seed| job::<Broken>(seed, setting).err().map(|error| (seed, error)));
    let (seed, error) = failure.unwrap_or_else(|| panic!("{broken:?}: {MOST} jobs were right"));
    println!("{broken:?}: seed {seed}: {error}");
}

/// A test for each rule of the machine.
macro_rules! broken {
    ($($test:ident: $rule:ident in $setting:ident,)*) => {$(
        #[test]
        fn $test() {
            expect_failure(Rule::$rule, $setting);
        }
    )*};
}

broken! {
    copies_are_compared: CopiesAreCompared in FLIPS,
    a_used_copy_is_compared: UsedCopyIsCompared in THREE,
    a_receiver_goes_on_with_its_own_copy_or_two: OwnCopyOrTwo in THREE,
    receivers_with_few_replicas_wait: FewReceiversWait in THREE,
    a_digest_is_of_another_sender: DigestOfAnother in FLIPS,
    a_third_sender_is_asked: ThirdIsAsked in THREE,
    a_later_send_answers: LaterSendAnswers in THREE,
    messages_are_kept_until_settled: KeptUntilSettled in DEATHS,
    others_send_what_the_dead_owed: OthersSendAfterDeath in DEATHS,
    nobody_waits_for_copies_of_the_dead: DeadAreNotAwaited in DEATHS,
    the_dead_are_not_heard: DeadAreNotHeard in BOTH,
    messages_become_ready_in_order: ReadyInOrder in DEATHS,
    one_replica_decides: OneDecides in CLEAN,
    undecided_receives_go_first: UndecidedGoesFirst in CLEAN,
    sends_wait_for_decisions: SendWaitsForDecisions in DEATHS,
    others_say_what_they_know: OthersSayWhatTheyKnow in DEATHS,
    polls_are_told: PollsAreTold in DEATHS,
    a_successor_asks: SuccessorAsks in DEATHS,
    a_successor_tells: SuccessorTells in DEATHS,
    the_receiver_waits_at_the_bound: BoundHolds in CLEAN,
    the_sender_waits_at_the_bound: SenderWaits in CLEAN,
    the_end_waits_for_verification: FinalizeWaits in FLIPS,
}
