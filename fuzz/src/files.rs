//! What comes from files that people write, or keep.

use propagation::topology::{from_file, from_host_names, spread};
use rdma_heartbeat::history::{self, Event, timeline};
use rdma_heartbeat::{distribution, order, parameter_file, values};

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
    assert!(text.lines().count() >= records.len());
    let mut times = distribution::Distribution::default();
    for record in &records {
        let _ = timeline::line(record, records.first());
        if let Event::Measured { counts, .. } = &record.event {
            counts.iter().for_each(|(micros, count)| times.add_many(*micros, *count));
        }
    }
    let quantile = times.quantile(0.999);
    assert!(times.count() == 0 || quantile <= times.longest());
}
