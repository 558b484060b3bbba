//! What comes from files that people write, or keep.

use cli::{parameter_file, timeline, values};
use node_abi::{leftovers, order, ports};
use propagation::topology::{from_file, from_host_names, spread};
use rdma_heartbeat::history::{self, Event};
use rdma_heartbeat::report::distribution;

/// The names of a job's hosts in the first line, and below a topology file: in the ring that follows from it, or from
/// the names alone, every node comes once.
pub fn topology(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (names, file) = text.split_once('\n').unwrap_or((&text, ""));
    let hosts: Vec<&str> = names.split_whitespace().collect();
    for domains in [Ok(from_host_names(&hosts)), from_file(file, &hosts)].into_iter().flatten() {
        assert_eq!(domains.len(), hosts.len());
        let mut ring = order::table(&spread(&domains));
        ring.sort_unstable();
        assert!(ring.iter().copied().eq(0..u32::try_from(hosts.len()).expect("a line of hosts")));
    }
}

/// A parameter file of any content: afterwards it sets what it shall, once more makes no difference, and what other
/// lines say is as it was.
pub fn parameter_file(bytes: &[u8]) {
    let values = [("psensor_ringwatch_period", "12ms".to_owned()), ("psensor_ringwatch_timeout", "120ms".to_owned())];
    let lines = |content: &[u8]| -> Vec<Vec<u8>> {
        let lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let sets = |line: &&[u8]| {
            let name = line.split(|byte| *byte == b'=').next().filter(|name| name.len() < line.len());
            name.is_some_and(|name| values.iter().any(|(known, _)| name.trim_ascii() == known.as_bytes()))
        };
        lines.filter(|line| !line.is_empty() && !sets(line)).map(<[u8]>::to_vec).collect()
    };
    let new = parameter_file::set(bytes, &values);
    assert_eq!(lines(&new), lines(bytes));
    for (name, value) in &values {
        let line = format!("{name} = {value}");
        assert!(new.split(|byte| *byte == b'\n').any(|one| one.trim_ascii() == line.as_bytes()));
    }
    assert_eq!(parameter_file::set(&new, &values), new);
}

/// What `pmix_info` says about its folders: one that begins at the root, as it stands there, whatever else is said.
pub fn folders(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let folder = parameter_file::folder_in(&text);
    assert!(folder.is_none_or(|folder| folder.starts_with('/') && !folder.contains('\n') && text.contains(folder)));
    let before: String =
        text.lines().filter(|line| !line.contains("Sysconfdir")).map(|line| line.to_owned() + "\n").collect();
    let answer = format!("{before}              Sysconfdir: /etc/pmix\n{text}");
    assert_eq!(parameter_file::folder_in(&answer), Some("/etc/pmix"));
}

/// A job, a host and the name of a file in `/dev/shm`, in three lines: what is removed names that host and a job of
/// that `mpirun`, each in its place.
pub fn leftovers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (nspace, host, name) = (line(), line(), line());
    let own = ports::number_of(nspace).map(|own| own >> 16);
    let label = host.split('.').next().unwrap_or_default();
    if leftovers::is_of(name, nspace, host) {
        let (kind, rest) = name.split_once('.').expect("kind and host");
        let rest = rest.strip_prefix(label).and_then(|rest| rest.strip_prefix('.')).expect("the host");
        let behind = if kind == "sm_segment" { 1 } else { 2 };
        let job = rest.rsplit('.').nth(behind).expect("the job");
        let number = u32::from_str_radix(job, 16).expect("a number");
        assert_eq!(Some(number >> 16), own);
        assert!(
            job.trim_start_matches('0').is_empty() || format!("{number:x}") == job.trim_start_matches('0'),
            "{job}"
        );
    }
    let Some(own) = own else { return };
    for (job, is_own) in [(own << 16 | 7, true), ((own ^ 1) << 16 | 7, false)] {
        for name in [format!("sm_segment.{host}.1000.{job:x}.3"), format!("osc_rdma.{host}.{job:x}.6.38813")] {
            assert_eq!(leftovers::is_of(&name, nspace, host), is_own, "{name}");
        }
        assert!(!leftovers::is_of(&format!("osc_sm.{label}x.{job:x}.6.1"), nspace, host));
    }
}

/// What the command line of `ringwatch` says.
pub fn options(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (values::share(&text), values::seed(&text), values::threads(&text), values::runs(&text));
    for (node, at) in text.split(',').flat_map(values::failure) {
        assert_eq!(values::failure(&format!("{node}@{}us", at.as_micros())).map(|(again, _)| again), Ok(node));
    }
    if let Ok(rate) = values::rate(&text) {
        assert!(rate.text == text && (1e-12..=1e6).contains(&rate.per_hour));
    }
}

/// A history that was kept, for people, and what it tells about times.
pub fn timeline(bytes: &[u8]) {
    let (records, _) = history::read(&String::from_utf8_lossy(bytes));
    let text = timeline::of(&records);
    assert!(text.lines().count() >= records.len() && !text.contains(|c: char| c.is_control() && c != '\n'));
    let mut times = distribution::Distribution::default();
    for record in &records {
        let line = timeline::line(record, records.first());
        assert!(line.strip_suffix('\n').is_some_and(|line| !line.contains(char::is_control)));
        if let Event::Measured { counts, .. } = &record.event {
            counts.iter().for_each(|(micros, count)| times.add_many(*micros, *count));
        }
    }
    let quantile = times.quantile(0.999);
    assert!(times.count() == 0 || quantile <= times.longest());
}
