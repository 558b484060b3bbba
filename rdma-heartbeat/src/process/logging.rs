//! The log: one line per event, `2026-01-01T00:00:00.000000Z INFO host text key=value`.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use node_abi::launch::LaunchData;
use platform::clock;
use platform::say::{Stderr, host};
use platform::sink::{Sink, expand};
use propagation::NodeId;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// Destination of the log's lines.
static SINK: OnceLock<Sink> = OnceLock::new();
static HAS_FILE: AtomicBool = AtomicBool::new(false);

/// Starts the log of this process according to the job's parameters. There is a log even if they are invalid.
pub fn start(launch: &LaunchData, me: NodeId) {
    let parameters = &launch.parameters;
    let host = host();
    let mut complaints = Vec::new();
    let level = parameters.log_level.parse().unwrap_or_else(|_| {
        complaints.push(format!("the log level {:?} is unknown; info is used", parameters.log_level));
        LevelFilter::INFO
    });
    let file = match parameters.log.as_str() {
        "" | "stderr" => None,
        pattern => {
            let path = expand(pattern, launch.places(&host, me));
            Sink::open(Path::new(&path))
                .map_err(|error| complaints.push(format!("the log {path} cannot be opened ({error}); stderr is used")))
                .ok()
        }
    };
    HAS_FILE.store(file.is_some(), Ordering::Relaxed);
    // Standard error may be a file, too, whose file system may hang.
    let stderr = || io::stderr().as_fd().try_clone_to_owned().and_then(|stderr| Sink::to(File::from(stderr))).ok();
    let sink = file.or_else(stderr).map(|sink| SINK.get_or_init(|| sink));
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .event_format(Line { host })
        .with_writer(Output { sink })
        .finish();
    // It fails only if a log was started before, which is used then.
    let _ = tracing::subscriber::set_global_default(subscriber);
    for complaint in complaints {
        tracing::warn!("{complaint}");
    }
}

/// Whether the log is a file of its own.
#[must_use]
pub fn has_file() -> bool {
    HAS_FILE.load(Ordering::Relaxed)
}

/// Waits for the last lines of the log to be written.
pub fn finish() {
    if let Some(sink) = SINK.get() {
        sink.finish();
    }
}

struct Line {
    host: String,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        write!(writer, "{} {} {} ", clock::utc(SystemTime::now()), event.metadata().level(), self.host)?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

struct Output {
    sink: Option<&'static Sink>,
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = Box<dyn Write + 'a>;

    fn make_writer(&'a self) -> Self::Writer {
        match self.sink {
            Some(sink) => Box::new(Lines(sink)),
            None => Box::new(Stderr),
        }
    }
}

struct Lines<'a>(&'a Sink);

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
