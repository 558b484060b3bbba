use super::*;

#[test]
fn a_second_mapping_sees_registrations_and_the_log_in_order() {
    let (writer, file) = Segment::create(&[4, 5], 3).unwrap();
    let reader = Segment::open_path(&path_of(&file)).unwrap();
    assert_eq!((reader.slots(), reader.rank(1), reader.slot_of(5), reader.slot_of(7)), (2, 5, Some(1), None));
    reader.enter(1, 77, Phase::Running);
    assert_eq!(writer.occupant(1), (77, Phase::Running));
    assert_eq!(writer.occupant(0), (0, Phase::Unknown));
    assert!(writer.append(Entry::Rank(9)));
    assert!(writer.append(Entry::Node(2)));
    assert_eq!((reader.len(), reader.entry(0), reader.entry(1)), (2, Some(Entry::Rank(9)), Some(Entry::Node(2))));
    assert_eq!(reader.entry(2), None);
}

#[test]
fn an_entry_calls_every_rank_until_it_has_looked() {
    let (writer, file) = Segment::create(&[4, 5], 3).unwrap();
    let reader = Segment::open_path(&path_of(&file)).unwrap();
    let called = || [0, 1].map(|slot| reader.call(slot).load(Ordering::Acquire));
    assert_eq!(called(), [0, 0]);
    writer.append(Entry::Rank(9));
    assert_eq!(called(), [1, 1]);
    assert_eq!(reader.call(1).swap(0, Ordering::AcqRel), 1);
    assert_eq!(called(), [1, 0]);
    writer.append(Entry::Node(2));
    assert_eq!(called(), [1, 1]);
    reader.call(0).store(0, Ordering::Release);
    writer.call_all();
    assert_eq!(called(), [1, 1]);
}

#[test]
fn the_last_error_of_a_rank_is_known_to_others_and_only_names_are() {
    let (segment, _file) = Segment::create(&[4, 5], 3).unwrap();
    let now = Duration::from_secs(9);
    assert_eq!(segment.error_after(1, 0, now), None);
    segment.note_error(1, "MPI_ERR_PROC_FAILED: Process Failure", "MPI_Neighbor_alltoallw_init", now);
    let error = segment.error_after(1, 0, now + Duration::from_millis(3)).unwrap();
    assert_eq!((error.count, error.at), (1, now));
    assert_eq!((error.class.as_str(), error.function.as_str()), ("MPI_ERR_PROC_FAILED", "MPI_Neighbor_alltoallw_init"));
    segment.note_error(1, &"x".repeat(NAME + 1), "\u{1b}[2Jno name", now);
    let error = segment.error_after(1, 1, now).unwrap();
    assert_eq!((error.count, error.class.len(), error.function.as_str()), (2, NAME, ""));
    assert_eq!(segment.error_after(1, 2, now), None, "it is known");
    // Neighbouring fields are unchanged.
    assert_eq!((segment.error_after(0, 0, now), segment.rank(1), segment.entry(0)), (None, 5, None));
}

#[test]
fn what_a_rank_raised_and_when_is_known_to_others() {
    let (segment, _file) = Segment::create(&[4, 5], 3).unwrap();
    let at = Duration::from_micros(u64::from(u32::MAX) * 5 - 10);
    assert_eq!(segment.raised(1, at).0, 0);
    segment.append(Entry::Rank(9));
    segment.note_raised(1, 1, at);
    assert_eq!(segment.raised(1, at + Duration::from_secs(3)), (1, at));
    assert_eq!(segment.raised(1, at - Duration::from_secs(3)), (1, at));
    segment.note_raised(0, 77, at);
    assert_eq!(segment.raised(0, at).0, 1, "never more than there is");
}

#[test]
fn spawned_ranks_get_slots_and_belong_to_their_job() {
    let (writer, file) = Segment::create(&[1], 3).unwrap();
    let reader = Segment::open(&file).unwrap();
    let (second, third) = (SpawnedJob { first: 4, number: 2 }, SpawnedJob { first: 6, number: 5 });
    assert!(writer.admit(second, &[5]) && writer.admit(third, &[]));
    assert_eq!((reader.slots(), reader.slot_of(5), reader.slot_of(4)), (2, Some(1), None));
    let jobs = [3, 4, 5, 6, 99].map(|rank| reader.spawned_job_of(rank));
    assert_eq!(jobs, [None, Some(second), Some(second), Some(third), Some(third)]);
    reader.enter(1, 77, Phase::Running);
    assert_eq!((writer.occupant(0).1, writer.occupant(1)), (Phase::Unknown, (77, Phase::Running)));
}

#[test]
fn a_node_without_room_refuses_a_job_whole() {
    let (segment, _file) = Segment::create(&[], 1).unwrap();
    let too_many: Vec<u32> = (0..=SPARE_SLOTS).collect();
    assert!(!segment.admit(SpawnedJob { first: 0, number: 2 }, &too_many));
    assert_eq!((segment.slots(), segment.spawned_job_of(0)), (0, None));
}

#[test]
fn a_full_log_refuses_and_keeps_what_it_has() {
    let (segment, _file) = Segment::create(&[], 1).unwrap();
    assert!(segment.append(Entry::Rank(1)));
    assert!(!segment.append(Entry::Rank(2)));
    assert_eq!(segment.entry(0), Some(Entry::Rank(1)));
}

#[test]
fn a_foreign_file_is_refused() {
    let file = memfd_create(c"other", MFdFlags::MFD_CLOEXEC).unwrap();
    nix::unistd::ftruncate(&file, 4096).unwrap();
    assert!(matches!(Segment::open(&file), Err(SegmentError::Foreign)));
}
