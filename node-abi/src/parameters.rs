//! Defines the user's parameters: names, defaults, ranges, and the parsing of their text.
//!
//! The plugin registers each as an MCA parameter `psensor_ringwatch_<name>`.

use std::time::Duration;

use propagation::Strategy;

use crate::launch::{Carrier, LAST_JOBS, Parameters};
use crate::order::Order;

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Name after `psensor_ringwatch_`.
    pub name: &'static str,
    /// Default, as text.
    pub default: &'static str,
    /// Help text with unit and range.
    pub help: &'static str,
}

/// Every parameter, in the order of [`read`]'s argument.
pub const DEFINITIONS: [Definition; 17] = [
    Definition {
        name: "enable",
        default: "true",
        help: "Whether ringwatch serves fault-tolerant jobs (true or false); jobs without fault tolerance are \
            never touched",
    },
    Definition {
        name: "period",
        default: "100ms",
        help: "Time between two heartbeats of a node, with unit (us, ms, s, min, h), 1ms to 60s",
    },
    Definition {
        name: "timeout",
        default: "10",
        help: "Silence after which a node is suspected, with unit, or a plain number of periods; at least 3 \
            periods, at most 10min",
    },
    Definition {
        name: "stop_timeout",
        default: "2s",
        help: "How long a rank may be stopped (SIGSTOP), or hang in its handler of a crash, before it is declared \
            dead, with unit, 10ms to 1h, or off; a prted that is stopped is then lost after 2s",
    },
    Definition {
        name: "fence",
        default: "true",
        help: "Whether processes that were declared dead are killed on their node (true or false); without it a \
            job ends where that would be needed",
    },
    Definition {
        name: "if_include",
        default: "",
        help: "Interfaces, IPv4 addresses or subnets (CIDR) for heartbeats, separated by commas; default: what \
            prte_if_include names, else all but loopback",
    },
    Definition {
        name: "transport",
        default: "auto",
        help: "How heartbeats travel: auto (RDMA writes where both nodes have a port in the same subnet, else \
            UDP), udp, or verbs (as auto, with a warning where it is UDP)",
    },
    Definition {
        name: "ring_order",
        default: "ids",
        help: "What keeps nodes apart on the ring: ids (nothing), hosts (racks as in the names r12n04), or the \
            absolute path of a topology file with a line 'host rack' or 'host rack/switch' per node",
    },
    Definition {
        name: "strategy",
        default: "circulant",
        help: "How deaths are broadcast: circulant (4 log2 n messages per node with acknowledgements, at most half \
            of log2 n hops and two more) or tree (three with them, log2 n hops; more where nodes die meanwhile)",
    },
    Definition {
        name: "offload",
        default: "",
        help: "Hosts whose part in the ring another machine carries: HOST=MACHINE, separated by commas, where \
            MACHINE is the name or address of a DPU or a service node as the remote shell takes it; hosts that are \
            not in the job are ignored",
    },
    Definition {
        name: "event_loggers",
        default: AUTO,
        help: "Whether ringwatchd keeps what ranks log of their events, so that a replacement can repeat them: \
            off, or how many nodes may die without a loss, 0 to 8; with f, each rank has loggers on 2f+1 nodes; \
            auto is 1 where hook_ringwatch_recovery is log, else off",
    },
    Definition {
        name: "port_range",
        default: "0",
        help: "UDP ports that may be used, first-last (1024 to 65535), or 0 for any",
    },
    Definition {
        name: "log_level",
        default: "warn",
        help: "Least severe messages that are logged: error, warn, info, debug or trace",
    },
    Definition {
        name: "log",
        default: "stderr",
        help: "Where messages go: stderr, or an absolute path in which %h is the host, %j the job, %n the number \
            of the node, %p the process number of mpirun and %s the number of Slurm's job",
    },
    Definition {
        name: "events",
        default: LAST_JOBS,
        help: "Where prterun's node writes the history of the job, in lines of JSON: last (beside those of the \
            last 16 jobs, in the folder ringwatch of XDG_STATE_HOME or ~/.local/state, for 'ringwatch events'), a \
            path with the same places as log, or off",
    },
    Definition {
        name: "loss_program",
        default: "",
        help: "Absolute path of a program that runs on prterun's node for each rank and node that is lost, with \
            the facts in RINGWATCH_* variables of its environment, for 60s at most; nobody but its owner, you or \
            root, may be able to write it",
    },
    Definition { name: "daemon", default: "", help: "Path of ringwatchd; default: beside prted, else found in PATH" },
];

/// Maximum number of node failures for event loggers: each costs two more nodes.
const MOST_FAILURES: u32 = 8;

const A_TIME: &str = "a time with its unit";

/// A value that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter psensor_ringwatch_{name} is '{value}': {expected}")]
pub struct Invalid {
    name: &'static str,
    value: String,
    expected: String,
}

/// The parameters' values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether ringwatch serves fault-tolerant jobs.
    pub enable: bool,
    /// Path of `ringwatchd`; empty to search for it.
    pub daemon: String,
    /// Path of the program that runs for each loss; empty for none.
    pub loss_program: String,
    /// The order of the ring.
    pub order: Order,
    /// The values for every node.
    pub parameters: Parameters,
}

/// The default of `event_loggers`.
const AUTO: &str = "auto";

/// Index of `event_loggers` in [`DEFINITIONS`].
fn place_of_event_loggers() -> usize {
    DEFINITIONS.iter().position(|definition| definition.name == "event_loggers").unwrap_or_default()
}

/// Chooses event loggers if the user has not: the replacement of ranks that `recovery`, the parameter of that name,
/// selects may need them.
pub fn choose_event_loggers(values: &mut [String; DEFINITIONS.len()], recovery: Option<&str>) {
    let value = &mut values[place_of_event_loggers()];
    if value.trim().eq_ignore_ascii_case(AUTO) {
        *value = if recovery == Some("log") { "1" } else { "off" }.to_owned();
    }
}

/// Reads the values of [`DEFINITIONS`].
///
/// # Errors
/// The first value that is malformed or out of range.
pub fn read(values: &[String; DEFINITIONS.len()]) -> Result<Settings, Invalid> {
    let [
        enable,
        period,
        timeout,
        stop_timeout,
        fence,
        interfaces,
        transport,
        ring_order,
        strategy,
        offload,
        event_loggers,
        ports,
        log_level,
        log,
        events,
        loss_program,
        daemon,
    ] = values;
    let period_range = (Duration::from_millis(1), Duration::from_secs(60));
    let period = duration("period", period, A_TIME, period_range)?;
    let timeout_range = (period * 3, Duration::from_secs(600).max(period * 3));
    let timeout = match timeout.trim().parse::<u64>() {
        Ok(periods) => {
            let periods = u32::try_from(periods).unwrap_or(u32::MAX);
            in_range("timeout", timeout, period.saturating_mul(periods), timeout_range)?
        }
        Err(_) => duration("timeout", timeout, "a whole number of periods or a time with its unit", timeout_range)?,
    };
    let stop_timeout = match stop_timeout.trim() {
        text if text.eq_ignore_ascii_case("off") => None,
        text => Some(duration("stop_timeout", text, A_TIME, (Duration::from_millis(10), Duration::from_secs(3600)))?),
    };
    let log_level = choice("log_level", log_level, &["error", "warn", "info", "debug", "trace"])?;
    let strategy = choice("strategy", strategy, &["circulant", "tree"])?;
    let order = Order::parse(ring_order).ok_or_else(|| bad_order(ring_order, Order::EXPECTED))?;
    Ok(Settings {
        enable: boolean("enable", enable)?,
        daemon: daemon.trim().to_owned(),
        loss_program: loss_program.trim().to_owned(),
        order,
        parameters: Parameters {
            period,
            timeout,
            stop_timeout,
            fence: boolean("fence", fence)?,
            interfaces: interfaces
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect(),
            transport: carrier(transport)?,
            ring_order: ring_order.trim().to_owned(),
            strategy: Strategy::from_name(strategy).unwrap_or_default(),
            offload: hosts(offload)?,
            event_loggers: loggers(event_loggers)?,
            ports: port_range(ports)?,
            log_level: log_level.to_owned(),
            log: destination(log)?,
            events: history(events)?,
        },
    })
}

/// The destination of messages. A relative path is refused: users would not look for it in a runtime daemon's working
/// directory.
fn destination(text: &str) -> Result<String, Invalid> {
    match text.trim() {
        path if path.starts_with('/') => Ok(path.to_owned()),
        word if word.eq_ignore_ascii_case("stderr") => Ok("stderr".into()),
        _ => Err(Invalid {
            name: "log",
            value: text.to_owned(),
            expected: "it must be stderr or an absolute path".into(),
        }),
    }
}

/// The destination of the history, if it is kept.
fn history(text: &str) -> Result<String, Invalid> {
    match text.trim() {
        path if path.is_empty() || path.starts_with('/') => Ok(path.to_owned()),
        word if word.eq_ignore_ascii_case(LAST_JOBS) => Ok(LAST_JOBS.into()),
        word if word.eq_ignore_ascii_case("off") => Ok(String::new()),
        _ => Err(Invalid {
            name: "events",
            value: text.to_owned(),
            expected: "it must be last, off, or an absolute path".into(),
        }),
    }
}

/// The error that the file of parameter `log` or `events` cannot be written on mpirun's node.
#[must_use]
pub fn unwritable(name: &'static str, value: &str, path: &str, why: &std::io::Error) -> Invalid {
    let expected = format!("the file {path} cannot be written on the node of mpirun ({why})");
    Invalid { name, value: value.to_owned(), expected }
}

/// The error that the program for losses cannot be used.
#[must_use]
pub fn bad_program(value: &str, why: &str) -> Invalid {
    Invalid { name: "loss_program", value: value.to_owned(), expected: why.to_owned() }
}

/// The error that a ring order cannot be used.
#[must_use]
pub fn bad_order(value: &str, why: &str) -> Invalid {
    Invalid { name: "ring_order", value: value.to_owned(), expected: why.to_owned() }
}

fn duration(name: &'static str, text: &str, wanted: &str, range: (Duration, Duration)) -> Result<Duration, Invalid> {
    let value = parse_duration(text).ok_or_else(|| Invalid {
        name,
        value: text.to_owned(),
        expected: format!("{wanted} was expected, such as 10ms or 2s, from {} to {}", show(range.0), show(range.1)),
    })?;
    in_range(name, text, value, range)
}

fn in_range(name: &'static str, text: &str, value: Duration, range: (Duration, Duration)) -> Result<Duration, Invalid> {
    if value < range.0 || value > range.1 {
        let expected = format!("it must be from {} to {}", show(range.0), show(range.1));
        return Err(Invalid { name, value: text.to_owned(), expected });
    }
    Ok(value)
}

/// Reads a time such as `10ms`, `0.5s`, `250us` or `2min`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..split].trim().parse().ok()?;
    let unit = match &text[split..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "y" => 365.25 * 86_400.0,
        _ => return None,
    };
    let exact = Duration::try_from_secs_f64(number * unit).ok()?;
    u64::try_from((exact.as_nanos() + 500) / 1000).ok().map(Duration::from_micros)
}

/// Writes a time the way [`parse_duration`] reads it.
#[must_use]
pub fn show(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        m if m % 60_000_000 == 0 && m > 0 => format!("{}min", m / 60_000_000),
        m if m % 1_000_000 == 0 => format!("{}s", m / 1_000_000),
        m if m % 1_000 == 0 => format!("{}ms", m / 1_000),
        m => format!("{m}us"),
    }
}

fn boolean(name: &'static str, text: &str) -> Result<bool, Invalid> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "enabled" => Ok(true),
        "false" | "0" | "no" | "off" | "disabled" => Ok(false),
        _ => Err(Invalid { name, value: text.to_owned(), expected: "it must be true or false".into() }),
    }
}

fn choice(name: &'static str, text: &str, allowed: &[&'static str]) -> Result<&'static str, Invalid> {
    let expected = || format!("it must be one of {}", allowed.join(", "));
    let found = allowed.iter().find(|word| text.trim().eq_ignore_ascii_case(word));
    found.copied().ok_or_else(|| Invalid { name, value: text.to_owned(), expected: expected() })
}

fn carrier(text: &str) -> Result<Carrier, Invalid> {
    Ok(match choice("transport", text, &["auto", "udp", "verbs"])? {
        "udp" => Carrier::Udp,
        "verbs" => Carrier::Verbs,
        _ => Carrier::Auto,
    })
}

/// Pairs of names for a remote shell. No character in them has a meaning for a shell.
fn hosts(text: &str) -> Result<Vec<(String, String)>, Invalid> {
    let invalid = |expected: &str| Invalid { name: "offload", value: text.to_owned(), expected: expected.into() };
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:@".contains(c);
        !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
    };
    let mut pairs: Vec<(String, String)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let pair = part.split_once('=').filter(|(host, machine)| is_name(host) && is_name(machine));
        let (host, machine) = pair.ok_or_else(|| invalid("it must be HOST=MACHINE, separated by commas"))?;
        if pairs.iter().any(|(known, _)| known == host) {
            return Err(invalid("a host can be named only once"));
        }
        if host == machine {
            return Err(invalid("a host cannot carry its own part for itself"));
        }
        pairs.push((host.to_owned(), machine.to_owned()));
    }
    Ok(pairs)
}

/// Number of nodes that may die without loss of event loggers' data.
fn loggers(text: &str) -> Result<Option<u32>, Invalid> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("off") || text.eq_ignore_ascii_case(AUTO) {
        return Ok(None);
    }
    let failures = text.parse().ok().filter(|failures| *failures <= MOST_FAILURES);
    let expected = || format!("it must be auto, off, or a whole number from 0 to {MOST_FAILURES}");
    failures.map(Some).ok_or_else(|| Invalid { name: "event_loggers", value: text.to_owned(), expected: expected() })
}

fn port_range(text: &str) -> Result<(u16, u16), Invalid> {
    let invalid = || Invalid {
        name: "port_range",
        value: text.to_owned(),
        expected: "it must be two ports from 1024 to 65535 such as 40000-40999, or 0 for any".into(),
    };
    if text.trim() == "0" {
        return Ok((0, 0));
    }
    let (first, last) = text.split_once('-').ok_or_else(invalid)?;
    let port = |part: &str| part.trim().parse::<u16>().ok().filter(|port| *port >= 1024);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
        _ => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(changes: &[(&str, &str)]) -> Result<Settings, Invalid> {
        let mut values = DEFINITIONS.map(|definition| definition.default.to_owned());
        for (name, value) in changes {
            let index = DEFINITIONS.iter().position(|definition| definition.name == *name).unwrap();
            values[index] = (*value).to_owned();
        }
        read(&values)
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let settings = with(&[]).unwrap();
        assert!(settings.enable && settings.parameters.fence);
        assert_eq!(settings.parameters.period, Duration::from_millis(100));
        assert_eq!(settings.parameters.timeout, Duration::from_secs(1));
        assert_eq!(settings.parameters.stop_timeout, Some(Duration::from_secs(2)));
    }

    #[test]
    fn the_manual_lists_every_parameter_with_its_default() {
        let manual = include_str!("../../docs/parameters.md");
        for Definition { name, default, .. } in DEFINITIONS {
            let cell = if default.is_empty() { " ".to_owned() } else { format!(" `{default}` ") };
            assert!(manual.contains(&format!("| `{name}` |{cell}|")), "{name}");
        }
    }

    #[test]
    fn the_timeout_follows_the_period_unless_it_has_a_unit() {
        assert_eq!(with(&[("period", "10ms")]).unwrap().parameters.timeout, Duration::from_millis(100));
        let settings = with(&[("period", "10ms"), ("timeout", "50ms")]).unwrap();
        assert_eq!(settings.parameters.timeout, Duration::from_millis(50));
    }

    #[test]
    fn the_transport_is_chosen_by_name() {
        let carrier = |name| with(&[("transport", name)]).unwrap().parameters.transport;
        assert_eq!(
            [carrier("auto"), carrier("udp"), carrier(" verbs "), carrier("UDP")],
            [Carrier::Auto, Carrier::Udp, Carrier::Verbs, Carrier::Udp]
        );
    }

    #[test]
    fn event_loggers_are_off_or_survive_a_number_of_failures() {
        let loggers = |value| with(&[("event_loggers", value)]).map(|settings| settings.parameters.event_loggers);
        assert_eq!([loggers("Off"), loggers(" 0"), loggers("8")], [Ok(None), Ok(Some(0)), Ok(Some(8))]);
        for bad in ["9", "-1", "on", ""] {
            assert!(loggers(bad).unwrap_err().to_string().contains("off, or a whole number from 0 to 8"), "{bad}");
        }
        let chosen = |value: &str, recovery| {
            let mut values = DEFINITIONS.map(|definition| definition.default.to_owned());
            values[place_of_event_loggers()] = value.to_owned();
            choose_event_loggers(&mut values, recovery);
            read(&values).unwrap().parameters.event_loggers
        };
        assert_eq!(
            [chosen("auto", None), chosen("auto", Some("none")), chosen("auto", Some("log"))],
            [None, None, Some(1)]
        );
        assert_eq!([chosen("off", Some("log")), chosen("2", None)], [None, Some(2)]);
    }

    #[test]
    fn ring_order_and_strategy_are_chosen_by_name() {
        let settings = with(&[]).unwrap();
        assert_eq!((settings.order, settings.parameters.strategy), (Order::Ids, Strategy::Circulant));
        let settings = with(&[("ring_order", "/etc/racks"), ("strategy", " Tree ")]).unwrap();
        assert_eq!((settings.order, settings.parameters.strategy), (Order::File("/etc/racks".into()), Strategy::Tree));
    }

    #[test]
    fn times_take_units_and_fractions() {
        assert_eq!(parse_duration("0.5s"), Some(Duration::from_millis(500)));
        assert_eq!(parse_duration("250us"), Some(Duration::from_micros(250)));
        assert_eq!(parse_duration(" 2 min"), Some(Duration::from_secs(120)));
        assert_eq!(parse_duration("1y"), parse_duration("365.25 d"));
        for bad in ["", "10", "ms", "-1s", "1e400s", "1e17s", "10 parsecs", "NaNs"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_bad_value_is_named_with_its_range() {
        let told = |changes: &[(&str, &str)]| with(changes).unwrap_err().to_string();
        assert_eq!(
            told(&[("period", "0.1ms")]),
            "parameter psensor_ringwatch_period is '0.1ms': it must be from 1ms to 1min"
        );
        assert_eq!(
            told(&[("timeout", "2")]),
            "parameter psensor_ringwatch_timeout is '2': it must be from 300ms to 10min"
        );
        assert!(told(&[("period", "10")]).contains("a time with its unit"));
        assert_eq!(
            told(&[("timeout", "0.5")]),
            "parameter psensor_ringwatch_timeout is '0.5': a whole number of periods or a time with its unit was \
             expected, such as 10ms or 2s, from 300ms to 10min"
        );
        assert!(told(&[("timeout", "5000000000")]).ends_with("it must be from 300ms to 10min"));
        assert!(told(&[("port_range", "80-90")]).contains("1024 to 65535"));
        assert!(told(&[("port_range", "5000-4000")]).contains("1024 to 65535"));
        assert!(told(&[("fence", "maybe")]).contains("true or false"));
        assert!(told(&[("log_level", "loud")]).contains("error, warn"));
        assert!(told(&[("transport", "tcp")]).contains("auto, udp, verbs"));
        assert!(told(&[("strategy", "star")]).contains("'star': it must be one of circulant, tree"));
        assert!(told(&[("ring_order", "racks")]).contains("'racks': it must be ids, hosts, or the absolute path"));
        assert!(told(&[("offload", "n1")]).contains("HOST=MACHINE"));
        assert!(told(&[("offload", "n1=-oProxyCommand=x")]).contains("HOST=MACHINE"));
        assert!(told(&[("offload", "n1=$(reboot)")]).contains("HOST=MACHINE"));
        assert!(told(&[("offload", "n1=d1,n1=d2")]).contains("only once"));
        assert!(told(&[("offload", "n1=n1")]).contains("itself"));
        assert!(told(&[("stop_timeout", "2h")]).contains("10ms to 60min"));
        assert!(told(&[("stop_timeout", "0")]).contains("a time with its unit"));
    }

    #[test]
    fn words_may_be_written_in_any_case() {
        let settings =
            with(&[("stop_timeout", "Off"), ("log_level", " WARN "), ("fence", "FALSE")]).unwrap().parameters;
        assert_eq!((settings.stop_timeout, &settings.log_level[..], settings.fence), (None, "warn", false));
    }
}
