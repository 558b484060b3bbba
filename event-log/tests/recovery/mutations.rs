//! The simulation sees each rule of the protocol: with one broken, a run fails.

use std::cell::Cell;

use event_log::protocol::variant::{Rule, Sound, Variant};

use crate::CRASHES;
use crate::setting::Setting;
use crate::world::World;

/// Seeds that are tried.
const MOST: u64 = 3_000;

fn expect_failure<V: Variant>(broken: &str, setting: Setting) {
    let failure = (0..MOST).find_map(|seed| World::<V>::new(seed, setting).run().err().map(|error| (seed, error)));
    let (seed, error) = failure.unwrap_or_else(|| panic!("{broken}: {MOST} runs were right"));
    println!("{broken}: seed {seed}: {error}");
}

thread_local! {
    static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
}

/// Breaks the rule that this thread's test names. One type for all rules: each further one is compiled anew.
struct Broken;

impl Variant for Broken {
    fn keeps(rule: Rule) -> bool {
        BROKEN.get() != Some(rule)
    }
}

/// A test for each rule of the machine.
macro_rules! broken {
    ($($test:ident: $rule:ident,)*) => {$(
        #[test]
        fn $test() {
            BROKEN.set(Some(Rule::$rule));
            expect_failure::<Broken>(stringify!($rule), CRASHES);
        }
    )*};
}

broken! {
    a_message_is_counted_then_stamped: CountedThenStamped,
    a_message_is_logged_when_determinants_are_stable: LoggedWhenStable,
    only_what_a_peer_has_is_not_sent: OnlyReceivedIsSuppressed,
    the_restored_log_is_sent_again: RestoredLogIsResent,
    the_newest_counters_hold: NewestCountersHold,
    what_is_sent_again_goes_before_what_is_new: ResentBeforeNew,
    determinants_go_on_after_the_last_fetched: IdsGoOn,
    no_checkpoint_is_taken_in_a_replay: NoCheckpointInReplay,
    polls_see_nothing_as_often: RepetitionsAreRepeated,
    cancelled_receives_are_not_posted: CancelledReceivesAreNotPosted,
    clocks_show_the_same: ClocksShowTheSame,
    polls_are_recorded_before_a_send: PollsAreRecordedBeforeSend,
    messages_count_in_the_order_of_receives: CountedInOrder,
    the_log_is_in_the_checkpoint: LogIsInCheckpoint,
    a_completed_operation_is_served: CompletedIsServed,
    entries_wait_for_the_checkpoints_of_all_members: EntriesWaitForAllMembers,
    a_receive_gets_what_was_probed: ProbedIsReceived,
    open_receives_are_posted_again: OpenReceivesArePostedAgain,
}

#[test]
fn sends_wait_for_determinants() {
    expect_failure::<Sound>("no wait for determinants", Setting { asynchronous: true, ..CRASHES });
}

#[test]
fn determinants_stay_until_the_checkpoint_is_durable() {
    expect_failure::<Sound>("trimmed before durable", Setting { trims_early: true, ..CRASHES });
}

#[test]
fn determinants_of_the_dead_do_not_come_after_the_list() {
    expect_failure::<Sound>("no fence at the logger", Setting { has_no_fence: true, ..CRASHES });
}

#[test]
fn messages_are_counted_per_tag() {
    expect_failure::<Sound>("counted per peer", Setting { counts_per_peer: true, ..CRASHES });
}

#[test]
fn all_pairs_exchange_counters() {
    expect_failure::<Sound>("only replaced ranks exchange", Setting { tells_replaced_only: true, ..CRASHES });
}
