//! What comes from processes of the same node.

use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use node_abi::event_loggers::{FromLogger, ToLogger, loggers_of};
use node_abi::framed_output::Merger;
use node_abi::greeting::{Caller, Place, ToolKey, introduce};
use node_abi::launch::{FromDaemon, LaunchData, Spawned, Startup, ToDaemon, Unreadable, decode, encode};
use node_abi::parameters::{DEFINITIONS, parse_duration, read, show};
use node_abi::seal::{Direction, Opener};
use node_abi::segment::Segment;
use node_abi::versions::{Refusal, is_pmix, sentence, told_by_daemon};
use openmpi_internals::release::of_text;
use platform::interfaces::is_meant;
use propagation::{Config, Time};
use rdma_heartbeat::detector::job::Job;
use rdma_heartbeat::detector::lifeline;
use rdma_heartbeat::detector::watch::Watch;
use rdma_heartbeat::history;
use rdma_heartbeat::logger::store::Store;
use rdma_heartbeat::offload::{Assignment, FromService, ToService};
use rdma_heartbeat::report::status::Report;

use crate::bytes::Bytes;

/// Launch data, and every packet between the plugin, `ringwatchd` and the one that serves a host: what can be read can
/// be written and read again.
pub fn packets(bytes: &[u8]) {
    if let Ok(launch) = decode::<LaunchData>(bytes) {
        let again = encode(&launch).expect("what was read can be written");
        assert_eq!(decode::<LaunchData>(&again).as_ref(), Ok(&launch));
        assert!(launch.ranks_of(0).count() <= launch.rank_nodes.len());
    }
    if let Ok(startup) = decode::<Startup>(bytes) {
        assert_eq!(Opener::new(&startup, Direction::ToDaemon).open(bytes), None, "nobody guesses a MAC");
    }
    let _ = decode::<Spawned>(bytes);
    let _ = decode::<ToDaemon>(bytes);
    let _ = decode::<FromDaemon>(bytes);
    let _ = decode::<Assignment>(bytes);
    let _ = decode::<ToService>(bytes);
    let _ = decode::<FromService>(bytes);
}

/// Callers that have not the key, and whoever answers in place of `ringwatchd`: neither is ever taken for the other.
pub fn greetings(bytes: &[u8]) {
    let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
    let mut caller = Caller::new(ours, Place::default()).expect("one of the same user");
    if theirs.write_all(bytes).is_ok() {
        assert!(!caller.is_known(&ToolKey::of(&[7; 32]), "ringwatch/7/job/0").unwrap_or(false), "nobody guesses a MAC");
    }
    let (mut ours, mut theirs) = UnixStream::pair().expect("two sockets");
    let written = theirs.write_all(bytes).and_then(|()| theirs.shutdown(Shutdown::Write));
    assert!(written.is_err() || introduce(&mut ours, "ringwatch/7/job/0").is_err(), "nobody guesses a MAC");
}

/// Answers that `ringwatch` gets: a status report, or a history, which comes in the order of its axis.
pub fn answers(bytes: &[u8]) {
    if let Ok(report) = postcard::from_bytes::<Report>(bytes) {
        let _ = serde_json::to_string(&report);
    }
    let (records, _) = history::read(&String::from_utf8_lossy(bytes));
    let shares = records.windows(2).all(|pair| (&pair[0].job, pair[0].clock) == (&pair[1].job, pair[1].clock));
    assert!(!shares || records.is_sorted_by_key(|record| record.at_us));
}

/// The text of parameters, divided by lines: what is accepted can work.
pub fn parameters(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let values = DEFINITIONS.map(|definition| lines.next().unwrap_or(definition.default).to_owned());
    if let Ok(settings) = read(&values) {
        let parameters = settings.parameters;
        assert_eq!(Config::new(0, 1, parameters.period, parameters.timeout).validate(), Ok(()));
        assert!(parameters.period >= Duration::from_millis(1) && parameters.period <= Duration::from_secs(60));
        assert!(parameters.ports.0 <= parameters.ports.1);
    }
    // Of longer times, which are centuries, not every microsecond can be written.
    if let Some(time) = parse_duration(&text).filter(|time| time.as_micros() < 1 << 50) {
        assert_eq!(parse_duration(&show(time)), Some(time));
    }
}

/// An entry of the list of interfaces, after an address: an address means itself, and a subnet all whose first bits are
/// the same.
pub fn interfaces(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let Some(address) = bytes.word().map(Ipv4Addr::from_bits) else { return };
    let text = String::from_utf8_lossy(bytes.0);
    let meant = is_meant(&text, "eth0", address);
    let first_bits = |one: Ipv4Addr, count: usize| format!("{:032b}", one.to_bits())[..count].to_owned();
    let expected = match text.split_once('/') {
        None => text == "eth0" || text.parse() == Ok(address),
        Some((net, bits)) => match (net.parse::<Ipv4Addr>(), bits.parse::<usize>()) {
            (Ok(net), Ok(bits @ 0..=32)) => first_bits(net, bits) == first_bits(address, bits),
            _ => false,
        },
    };
    assert_eq!(meant, expected, "{text:?} and {address}");
    assert!(is_meant(&address.to_string(), "eth0", address) && is_meant(&format!("{address}/32"), "eth0", address));
}

/// The beginning of launch data that every release reads, a refusal that was made with the key or not, and what a
/// `ringwatchd` and the libraries that are installed say their release is.
pub fn releases(bytes: &[u8]) {
    if let Err(Unreadable::Release(contact)) = LaunchData::from_bytes(bytes) {
        let again = encode(&contact).expect("what was read can be written");
        assert!(matches!(LaunchData::from_bytes(&again), Err(Unreadable::Release(same)) if same == contact));
    }
    assert_eq!(Refusal::open(bytes, 1, &[7; 32]), None, "nobody guesses a MAC");
    if let Ok(refusal) = decode::<Refusal>(bytes) {
        let sealed = refusal.seal(1, &[7; 32]);
        let opened = Refusal::open(&sealed, 1, &[7; 32]);
        assert!(opened.is_none_or(|opened| opened == refusal && !sentence(&[opened]).contains(char::is_control)));
    }
    let text = String::from_utf8_lossy(bytes);
    let numbers = of_text(&text).is_some() || prte_hooks::numbers(&text).is_some() || is_pmix(&text, "5.0.7");
    assert!(!numbers || text.contains(|c: char| c.is_ascii_digit()));
    assert!(told_by_daemon(&text).is_none_or(|release| text.contains(release) && !release.is_empty()));
}

/// A segment in which a rank gone wild has written whatever it likes, beyond the fields that were sealed at the start.
pub fn segment(bytes: &[u8]) {
    let (own, file) = Segment::create(&[0, 1], 6).expect("memory for a segment");
    let mut file = File::from(file);
    let header = 16.min(bytes.len());
    if !write_at(&mut file, &bytes[header..]) {
        return;
    }
    look(&own);
    if let Ok(other) = Segment::open(&file) {
        look(&other);
    }
    // And one that is none from its first byte on.
    let foreign = nix::sys::memfd::memfd_create(c"foreign", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let mut foreign = File::from(foreign.expect("memory for a file"));
    if foreign.write_all(bytes).is_ok() {
        if let Ok(other) = Segment::open(&foreign) {
            look(&other);
        }
    }
}

fn write_at(file: &mut File, bytes: &[u8]) -> bool {
    use std::os::unix::fs::FileExt;
    let room = file.metadata().map_or(0, |data| usize::try_from(data.len()).unwrap_or(0)).saturating_sub(16);
    file.write_all_at(&bytes[..bytes.len().min(room)], 16).is_ok()
}

/// The number of no process, whose children need not be looked at.
const NO_RUNTIME: i32 = i32::MAX;

/// All that `ringwatchd`, the plugin and the ranks read, without what acts on processes.
fn look(segment: &Segment) {
    let now = Duration::from_secs(9);
    let entries: Vec<_> = (0..segment.len()).filter_map(|index| segment.entry(index)).collect();
    assert!(entries.len() <= 1 << 16);
    for slot in 0..segment.slots() {
        let (count, _) = segment.raised(slot, now);
        assert!(count <= segment.len());
        if let Some(error) = segment.error_after(slot, 0, now) {
            assert!(!format!("{}{}", error.class, error.function).contains(|c: char| !c.is_ascii_graphic()));
        }
        let _ = (segment.occupant(slot), segment.changes(slot), lifeline::is_broken(segment, slot));
    }
    let mut watch = Watch::new(
        segment,
        |rank| ("job@1", rank),
        Duration::from_millis(1),
        Some(Duration::from_millis(10)),
        false,
        NO_RUNTIME,
    )
    .expect("a descriptor");
    let mut sightings = Vec::new();
    watch.look(now, segment, &mut sightings);
    watch.broken(segment, &mut sightings);
    let _ = (watch.all_initialised(segment, |_| true), watch.has_living(segment), watch.has_finalised(0, segment));
    let mut job = Job::new(&launch(), &[], &[], segment, now);
    let _ = job.verdict(now);
    assert!(job.graves().len() <= 4 + 2, "each rank and each node dies once");
}

/// A job of two nodes with two ranks each.
pub(crate) fn launch() -> LaunchData {
    let values = DEFINITIONS.map(|definition| definition.default.to_owned());
    LaunchData {
        version: node_abi::launch::LAUNCH_VERSION,
        job: 1,
        key: [7; 32],
        nspace: "job@1".into(),
        origin: Default::default(),
        universe: 2,
        hosts: Default::default(),
        ring: vec![],
        rank_nodes: vec![0, 0, 1, 1],
        rendezvous: Vec::new(),
        agent: String::new(),
        rank_environment: Vec::new(),
        changes: Vec::new(),
        daemon: String::new(),
        ranks_register: true,
        ranks_start_stopped: false,
        parameters: read(&values).expect("defaults are right").parameters,
    }
}

/// When a process counts as stopped, from any samples: never before it has been seen so for the limit.
pub fn stops(bytes: &[u8]) {
    use rdma_heartbeat::detector::stopped::StopCount;
    let (mut bytes, limit) = (Bytes(bytes), Duration::from_millis(100));
    let (mut count, mut now, mut stopped_since) = (StopCount::default(), Time::ZERO, None);
    while let Some(word) = bytes.word() {
        now += Duration::from_millis(u64::from(word >> 1 & 0x3ff));
        let stopped = (word & 1 == 1).then_some(u64::from(word >> 11 & 1));
        stopped_since = match (stopped_since, stopped) {
            (Some((since, ticks)), Some(same)) if ticks == same => Some((since, ticks)),
            _ => stopped.map(|ticks| (now, ticks)),
        };
        if count.observe(now, stopped, limit) {
            assert!(stopped_since.is_some_and(|(since, _)| now - since >= limit));
        }
    }
}

/// What a rank and the event logger of its node say to each other, and a file of a logger in which whatever stands.
pub fn logger_packets(bytes: &[u8]) {
    if let Ok(packet) = decode::<ToLogger>(bytes) {
        let again = encode(&packet).expect("what was read can be written");
        assert_eq!(decode::<ToLogger>(&again), Ok(packet));
    }
    if let Ok(packet) = decode::<FromLogger>(bytes) {
        let again = encode(&packet).expect("what was read can be written");
        assert_eq!(decode::<FromLogger>(&again), Ok(packet));
    }
    let file = nix::sys::memfd::memfd_create(c"logger", nix::sys::memfd::MFdFlags::MFD_CLOEXEC);
    let mut file = File::from(file.expect("memory for a file"));
    if file.write_all(bytes).is_ok() {
        let store = Store::open(Some(file.into()), false);
        assert!(store.holdings().count() <= bytes.len());
    }
    let ring: Vec<u32> = bytes.iter().take(9).map(|byte| u32::from(*byte)).collect();
    let nodes = loggers_of(u32::from(bytes.first().copied().unwrap_or(0)), &ring, ring.len() as u32, 3);
    assert!(nodes.len() <= 7 && (ring.is_empty() || nodes.len() % 2 == 1));
}

/// What a rank prints, in parts whose length the first byte says: the same text comes out as of one piece, and never more
/// than went in.
pub fn output(bytes: &[u8]) {
    let Some((length, bytes)) = bytes.split_first() else { return };
    let whole = Merger::default().take(0, bytes);
    let mut merger = Merger::default();
    let (mut text, mut lost) = (Vec::new(), Vec::new());
    for part in bytes.chunks(usize::from(*length).max(1)) {
        let merged = merger.take(0, part);
        text.extend(merged.text);
        lost.extend(merged.lost);
    }
    assert!(text.len() <= bytes.len());
    assert_eq!((text, lost), (whole.text, whole.lost));
}
