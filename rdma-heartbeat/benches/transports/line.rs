//! What the two processes say to each other beside what is measured: lines of JSON over TCP.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};

use node_abi::launch::LaunchData;
use platform::clock;
use propagation::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::end::{Carrier, End, OBSERVER};
use crate::trial::{Burners, Emitted, Observed, Trial, Usage, Watch, observe, sleep_through};

pub const PORT: u16 = 7400;
/// How long the other process may take to start, and a connection to come about.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What the observer's process asks of the emitter's.
#[derive(Serialize, Deserialize)]
pub enum Ask {
    Clock,
    /// Make an end, the other one is there; heartbeats are sent until it works.
    Connect {
        carrier: Carrier,
        period: Duration,
        observer: (IpAddr, u16),
    },
    Run(Trial),
    /// Enough of the trial, or of the node.
    Stop,
    /// Run a node of a job.
    Daemon {
        launch: Box<LaunchData>,
        seconds: Duration,
    },
}

/// What it answers.
#[derive(Serialize, Deserialize)]
pub enum Reply {
    Clock(Time),
    Connected { port: u16 },
    Ran(Emitted),
    Daemon(Value),
    Failed(String),
}

/// Both sides of a trial.
#[derive(Default)]
pub struct Outcome {
    pub emitter: Usage,
    pub observer: Usage,
    pub look: u64,
    pub sent: u64,
    pub seen: u64,
    pub lost: u64,
    pub misses: u64,
    pub longest: Duration,
    pub declared: bool,
    pub detected: Duration,
    pub lasted: Duration,
}

pub fn write(stream: &mut TcpStream, value: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(value).map_err(|error| error.to_string())?;
    stream.write_all(format!("{text}\n").as_bytes()).map_err(|error| format!("the other process is gone: {error}"))
}

/// What the other side has answered, if it is what was asked for.
pub fn expect<T>(reply: Reply, pick: impl Fn(Reply) -> Option<T>) -> Result<T, String> {
    if let Reply::Failed(why) = reply {
        return Err(format!("the emitter: {why}"));
    }
    pick(reply).ok_or_else(|| "the emitter gave another answer than asked for".into())
}

fn read<T: DeserializeOwned>(reader: &mut impl BufRead) -> Result<T, String> {
    let mut text = String::new();
    reader.read_line(&mut text).map_err(|error| format!("the other process is gone: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("the other process has said '{}': {error}", text.trim()))
}

/// The observer's side of the conversation.
pub struct Line {
    own: IpAddr,
    peer: IpAddr,
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    /// What to add to the emitter's clock, and by how much that may be wrong.
    ahead: i128,
    clock_error: Duration,
}

impl Line {
    pub fn call(own: IpAddr, peer: IpAddr) -> Result<Self, String> {
        let begin = Instant::now();
        let stream = loop {
            match TcpStream::connect((peer, PORT)) {
                Ok(stream) => break stream,
                Err(error) if begin.elapsed() > PATIENCE => return Err(format!("{peer} does not answer: {error}")),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        let _ = stream.set_nodelay(true);
        let reader = BufReader::new(stream.try_clone().map_err(|error| error.to_string())?);
        let mut line = Self { own, peer, stream, reader, ahead: 0, clock_error: Duration::MAX };
        line.compare_clocks()?;
        Ok(line)
    }

    /// The difference of the clocks as the fastest of some questions shows it. On one machine both are the same.
    fn compare_clocks(&mut self) -> Result<(), String> {
        for _ in 0..50 {
            let before = clock::now();
            let theirs = expect(self.ask(&Ask::Clock)?, |reply| match reply {
                Reply::Clock(time) => Some(time),
                _ => None,
            })?;
            let way = (clock::now() - before) / 2;
            if way < self.clock_error {
                self.ahead = (before + way).as_nanos() as i128 - theirs.as_nanos() as i128;
                self.clock_error = way;
            }
        }
        if self.ahead.unsigned_abs() <= self.clock_error.as_nanos() {
            (self.ahead, self.clock_error) = (0, Duration::ZERO);
        }
        Ok(())
    }

    pub fn clock_error(&self) -> Duration {
        self.clock_error
    }

    pub fn ask(&mut self, ask: &Ask) -> Result<Reply, String> {
        self.say(ask)?;
        self.hear()
    }

    pub fn say(&mut self, ask: &Ask) -> Result<(), String> {
        write(&mut self.stream, ask)
    }

    pub fn hear(&mut self) -> Result<Reply, String> {
        read(&mut self.reader)
    }

    /// Both ends of a transport, connected.
    pub fn connect(&mut self, carrier: Carrier, period: Duration) -> Result<End, String> {
        let (mut end, port) = End::new(OBSERVER, self.own, carrier, period)?;
        self.say(&Ask::Connect { carrier, period, observer: (self.own, port) })?;
        let port = expect(self.hear()?, |reply| match reply {
            Reply::Connected { port } => Some(port),
            _ => None,
        })?;
        end.meet((self.own, 0), (self.peer, port));
        let begin = Instant::now();
        while !end.works() {
            end.tend();
            end.look(clock::now());
            if begin.elapsed() > PATIENCE {
                return Err(format!("no connection by {} within {PATIENCE:?}", carrier.name()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // It goes on until it hears that it works here, too.
        self.say(&Ask::Stop)?;
        expect(self.hear()?, |reply| matches!(reply, Reply::Connected { .. }).then_some(()))?;
        end.look(clock::now());
        Ok(end)
    }

    /// A trial on both sides.
    pub fn run(&mut self, end: &mut End, trial: &Trial, watch: Watch) -> Result<Outcome, String> {
        let _load = Burners::start(trial.load);
        self.begin(end, trial, |end| observe(end, trial, watch))
    }

    /// The same with an observer that does not look before all is over.
    pub fn run_asleep(&mut self, end: &mut End, trial: &Trial) -> Result<Outcome, String> {
        self.begin(end, trial, |end| sleep_through(end, trial))
    }

    fn begin(
        &mut self,
        end: &mut End,
        trial: &Trial,
        observe: impl FnOnce(&mut End) -> Observed,
    ) -> Result<Outcome, String> {
        let arrived = end.arrived();
        self.say(&Ask::Run(trial.clone()))?;
        let observed = observe(end);
        // It may be at work yet, if the observer has seen enough.
        self.say(&Ask::Stop)?;
        let emitted = expect(self.hear()?, |reply| match reply {
            Reply::Ran(emitted) => Some(emitted),
            _ => None,
        })?;
        end.look(clock::now());
        let seen = end.arrived() - arrived;
        let last = emitted.last.as_nanos() as i128 + self.ahead;
        let detected = (observed.suspected_at.as_nanos() as i128 - last).max(0);
        Ok(Outcome {
            emitter: emitted.usage,
            observer: observed.usage,
            look: observed.look,
            sent: emitted.sent,
            seen,
            lost: if end.carrier == Carrier::None { 0 } else { emitted.sent.saturating_sub(seen) },
            misses: observed.misses,
            longest: observed.longest,
            declared: observed.declared,
            detected: Duration::from_nanos(u64::try_from(detected).unwrap_or(u64::MAX)),
            lasted: observed.lasted,
        })
    }
}
