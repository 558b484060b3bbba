//! What the two processes say to each other beside what is measured: lines of JSON over TCP.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use propagation::Time;
use rdma_heartbeat::clock;
use rdma_heartbeat::launch::LaunchData;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::daemons;
use crate::end::{Carrier, EMITTER, End, OBSERVER};
use crate::trial::{Burners, Emitted, Observed, Trial, Usage, Watch, emit, observe, sleep_through};

const PORT: u16 = 7400;
/// How long the other process may take to start, and a connection to come about.
const PATIENCE: Duration = Duration::from_secs(60);

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

fn write(stream: &mut TcpStream, value: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string(value).map_err(|error| error.to_string())?;
    stream.write_all(format!("{text}\n").as_bytes()).map_err(|error| format!("the other process is gone: {error}"))
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
            let theirs = crate::expect(self.ask(&Ask::Clock)?, |reply| match reply {
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
        let port = crate::expect(self.hear()?, |reply| match reply {
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
        crate::expect(self.hear()?, |reply| matches!(reply, Reply::Connected { .. }).then_some(()))?;
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
        let emitted = crate::expect(self.hear()?, |reply| match reply {
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

/// The emitter's side of the conversation, for one observer.
pub fn serve(own: IpAddr) -> Result<(), String> {
    let listener = TcpListener::bind((own, PORT)).map_err(|error| format!("{own}: {error}"))?;
    let (mut stream, _) = listener.accept().map_err(|error| error.to_string())?;
    let _ = stream.set_nodelay(true);
    let reader = BufReader::new(stream.try_clone().map_err(|error| error.to_string())?);
    let (asked, asks) = channel();
    // A thread of its own, so that a trial can be interrupted without a system call per heartbeat.
    std::thread::spawn(move || {
        for text in reader.lines().map_while(Result::ok) {
            let ask = serde_json::from_str::<Ask>(&text).map_err(|error| error.to_string());
            if asked.send(ask).is_err() {
                return;
            }
        }
    });
    let (mut end, mut node) = (None, None);
    while let Ok(ask) = asks.recv() {
        let reply = match ask? {
            Ask::Connect { carrier, period, observer } => {
                let (mut new, at) = End::new(EMITTER, own, carrier, period)?;
                new.meet(observer, (own, at));
                write(&mut stream, &Reply::Connected { port: at })?;
                connect(&mut new, &asks)?;
                end = Some(new);
                Reply::Connected { port: at }
            }
            Ask::Run(trial) => match &mut end {
                Some(end) => {
                    let _load = Burners::start(trial.load);
                    Reply::Ran(emit(end, &trial, || matches!(asks.try_recv(), Ok(Ok(Ask::Stop)))))
                }
                None => Reply::Failed("there is no connection".into()),
            },
            Ask::Stop => {
                drop(node.take());
                continue;
            }
            Ask::Clock => Reply::Clock(clock::now()),
            Ask::Daemon { launch, seconds } => match daemons::run(&launch, EMITTER, own, seconds) {
                Ok((new, value)) => {
                    node = Some(new);
                    Reply::Daemon(value)
                }
                Err(why) => Reply::Failed(why),
            },
        };
        write(&mut stream, &reply)?;
    }
    Ok(())
}

/// Sends heartbeats until both ends say that they work.
fn connect(end: &mut End, asks: &Receiver<Result<Ask, String>>) -> Result<(), String> {
    let begin = Instant::now();
    let mut is_heard = false;
    while !is_heard || !end.works() {
        is_heard |= match asks.try_recv() {
            Ok(_) => true,
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => return Err("the observer is gone".into()),
        };
        end.tend();
        end.beat();
        if begin.elapsed() > PATIENCE {
            return Err(format!("no connection by {} within {PATIENCE:?}", end.carrier.name()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
