use super::*;

const TIMEOUT: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_secs(1);

fn launch(fence: bool) -> LaunchData {
    let mut launch = node_abi::testing::launch();
    (launch.parameters.period, launch.parameters.timeout) = (TIMEOUT / 10, TIMEOUT);
    launch.parameters.fence = fence;
    launch
}

fn segment() -> Segment {
    Segment::create(&[0], 16).unwrap().0
}

fn job(fence: bool) -> Job {
    Job::new(&launch(fence), &[], &[], &segment(), Time::ZERO)
}

fn rank(rank: u32, reason: RankReason) -> Fact {
    Fact { subject: Subject::Rank { rank, node: 0, reason }, source: 0, suspector: None }
}

fn node(node: NodeId, reason: NodeReason) -> Fact {
    Fact { subject: Subject::Node { node, reason }, source: 0, suspector: Some(0) }
}

fn make_ready(job: &mut Job) {
    for node in 0..4 {
        job.node_ready(node);
    }
    assert!(job.all_ready());
}

#[test]
fn a_node_takes_its_living_ranks_with_it_once() {
    let mut job = job(true);
    assert_eq!(job.learn(&rank(1, RankReason::Reported), Time::ZERO).unwrap().ranks, [1]);
    assert_eq!(job.learn(&rank(1, RankReason::Stopped), Time::ZERO), None);
    let news = job.learn(&node(1, NodeReason::Silent), Time::ZERO).unwrap();
    assert_eq!((news.ranks, news.node), (vec![2], Some(1)));
    assert_eq!(job.learn(&node(1, NodeReason::Resigned), Time::ZERO), None);
    assert_eq!(job.learn(&rank(9, RankReason::Reported), Time::ZERO), None);
    assert_eq!(job.learn(&node(9, NodeReason::Silent), Time::ZERO), None);
    assert_eq!((job.is_dead(2), job.is_dead(3), job.is_dead(9)), (true, false, false));
}

fn spawned(first: u32, rank_nodes: &[NodeId]) -> Spawned {
    let rank_nodes = rank_nodes.to_vec();
    Spawned { nspace: "job@2".into(), first, rank_nodes, is_awaited: true, is_replacement: false }
}

#[test]
fn spawned_ranks_die_like_others_and_nobody_has_a_number_in_a_gap() {
    let mut job = job(true);
    make_ready(&mut job);
    // Numbers 4 and 5 belong to a job whose start has failed.
    assert_eq!(job.spawn(&spawned(6, &[3, 1]), Time::ZERO), (vec![], vec![]));
    assert_eq!((job.node_of(5), job.node_of(6), job.node_of(8)), (None, Some(3), None));
    assert_eq!(job.learn(&rank(5, RankReason::Reported), Time::ZERO), None);
    assert_eq!(job.learn(&rank(6, RankReason::Reported), Time::ZERO).unwrap().ranks, [6]);
    assert_eq!(job.learn(&node(1, NodeReason::Silent), Time::ZERO).unwrap().ranks, [1, 2, 7]);
    for alone in [0, 3] {
        assert_eq!(job.verdict(Time::ZERO), None);
        job.learn(&rank(alone, RankReason::Reported), Time::ZERO);
    }
    assert_eq!(job.verdict(Time::ZERO).unwrap().0, EndReason::NoSurvivor);
}

#[test]
fn a_job_ends_without_its_ranks_whatever_programs_without_mpi_live() {
    let mut job = job(true);
    make_ready(&mut job);
    job.spawn(&Spawned { is_awaited: false, ..spawned(4, &[3, 1]) }, Time::ZERO);
    job.learn(&node(1, NodeReason::Silent), Time::ZERO);
    for alone in [0, 3] {
        assert_eq!(job.verdict(Time::ZERO), None);
        job.learn(&rank(alone, RankReason::Reported), Time::ZERO);
    }
    assert_eq!(job.verdict(Time::ZERO).unwrap().0, EndReason::NoSurvivor);
}

#[test]
fn a_job_of_which_nobody_lives_ends_when_no_core_is_written_any_more() {
    let mut job = job(true);
    make_ready(&mut job);
    for dumping in [0, 1, 3] {
        job.learn(&rank(dumping, RankReason::DumpsCore { signal: 11 }), Time::ZERO);
    }
    job.learn(&rank(2, RankReason::Reported), Time::ZERO);
    assert_eq!(job.verdict(Time::ZERO), None);
    job.rank_is_gone(0);
    job.learn(&node(2, NodeReason::Silent), Time::ZERO);
    assert_eq!(job.verdict(Time::ZERO), None);
    job.rank_is_gone(1);
    assert_eq!(job.verdict(Time::ZERO).unwrap().0, EndReason::NoSurvivor);
}

#[test]
fn a_spawned_rank_for_which_others_wait_in_vain_ends_the_job() {
    let mut job = job(true);
    make_ready(&mut job);
    job.spawn(&spawned(4, &[3, 1]), Time::ZERO);
    job.learn(&rank(5, RankReason::Early), Time::ZERO);
    let (reason, sentence) = job.verdict(Time::ZERO).unwrap();
    assert_eq!(reason, EndReason::InitFailure);
    assert!(sentence.starts_with("rank 5 on node 1 (h2) ended before it had left MPI_Init"), "{sentence}");
}

#[test]
fn a_job_is_spawned_onto_a_dead_node_or_after_the_news_of_a_death() {
    let mut job = job(true);
    job.learn(&node(2, NodeReason::Silent), Time::ZERO);
    let early = rank(5, RankReason::Reported);
    assert_eq!(job.learn(&early, Time::ZERO), None);
    assert_eq!(job.learn(&early, Time::ZERO), None);
    assert_eq!(job.spawn(&spawned(4, &[2, 3]), Time::ZERO), (vec![4], vec![early]));
    assert!(job.is_dead(4) && !job.is_dead(5));
    assert_eq!(job.learn(&early, Time::ZERO).unwrap().ranks, [5]);
}

#[test]
fn the_log_tells_a_new_incarnation_what_the_old_one_knew() {
    let segment = segment();
    segment.append(Entry::Rank(3));
    segment.append(Entry::Rank(1));
    segment.append(Entry::Rank(2));
    segment.append(Entry::Node(1));
    segment.set_flags(FLAG_ALL_READY);
    let mut job = Job::new(&launch(true), &[], &[], &segment, Time::ZERO);
    assert!(job.all_ready() && job.is_dead(3) && job.is_dead(1) && !job.is_dead(0));
    assert_eq!(job.dead_nodes().collect::<Vec<_>>(), [1]);
    assert_eq!(job.verdict(GRACE * 10), None);
}

#[test]
fn who_was_ready_is_not_forgotten_either() {
    let segment = segment();
    for node in [0, 3, 1] {
        segment.append(Entry::Ready(node));
    }
    let mut job = Job::new(&launch(true), &[], &[], &segment, Time::ZERO);
    assert!(!job.all_ready() && !job.node_ready(1));
    assert!(job.node_ready(2) && job.all_ready());
}

#[test]
fn a_death_before_all_are_ready_ends_the_job_after_a_grace() {
    let mut job = job(true);
    job.node_ready(0);
    job.learn(&rank(2, RankReason::Reported), GRACE).unwrap();
    assert_eq!(job.deadline(), GRACE * 2);
    assert_eq!(job.verdict(GRACE * 2 - TIMEOUT), None);
    let (reason, sentence) = job.verdict(GRACE * 2).unwrap();
    assert_eq!(reason, EndReason::InitFailure);
    assert_eq!(
        sentence,
        "rank 2 on node 1 (h2) ended before every rank had left MPI_Init, from which Open MPI cannot recover; the job is ended"
    );
}

#[test]
fn a_death_while_the_last_are_leaving_init_does_not() {
    let mut job = job(true);
    for node in [0, 2, 3] {
        job.node_ready(node);
    }
    assert!(!job.all_ready());
    job.learn(&node(1, NodeReason::Silent), Time::ZERO).unwrap();
    assert_eq!(job.verdict(GRACE * 2), None);
    assert!(job.all_ready());
    assert_eq!(job.deadline(), Time::MAX);
    job.learn(&node(2, NodeReason::Silent), Time::ZERO).unwrap();
    assert_eq!(job.verdict(GRACE * 2), None);
}

#[test]
fn a_job_without_ranks_left_ends() {
    let mut job = job(true);
    make_ready(&mut job);
    for dead in [1, 2] {
        job.learn(&node(dead, NodeReason::ConnectionLost), Time::ZERO).unwrap();
    }
    assert_eq!(job.verdict(Time::ZERO), None);
    job.learn(&rank(0, RankReason::Exited { status: 3 }), Time::ZERO).unwrap();
    assert_eq!(job.verdict(Time::ZERO).unwrap().0, EndReason::NoSurvivor);
}

#[test]
fn without_fencing_whoever_may_still_run_ends_the_job() {
    let check = |fact: &Fact| {
        let mut job = job(false);
        make_ready(&mut job);
        job.learn(fact, Time::ZERO).unwrap();
        job.verdict(Time::ZERO).map(|(reason, _)| reason)
    };
    assert_eq!(check(&rank(1, RankReason::Signaled { signal: 9 })), None);
    assert_eq!(check(&node(3, NodeReason::Silent)), None);
    assert_eq!(check(&rank(1, RankReason::Stopped)), Some(EndReason::FencingOff));
    assert_eq!(check(&node(1, NodeReason::Silent)), Some(EndReason::FencingOff));
    assert_eq!(check(&node(1, NodeReason::ConnectionLost)), Some(EndReason::FencingOff));
}

#[test]
fn a_rank_that_ends_in_order_is_missed_only_while_others_wait_in_mpi_init() {
    let mut job = job(true);
    job.rank_ended(2);
    assert_eq!(job.verdict(GRACE * 3), None, "nobody uses MPI yet");
    job.miss_who_ended(GRACE * 3);
    assert_eq!(job.verdict(GRACE * 3), None);
    assert_eq!(job.verdict(GRACE * 4).map(|(reason, _)| reason), Some(EndReason::InitFailure));

    let mut job = self::job(true);
    for node in 0..4 {
        job.node_ready(node);
    }
    job.rank_ended(2);
    job.miss_who_ended(Time::ZERO);
    assert_eq!(job.verdict(GRACE * 2), None);
}
