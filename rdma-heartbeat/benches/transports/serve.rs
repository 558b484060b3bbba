//! The emitter's process: does what the observer's asks for.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpListener};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use platform::clock;

use crate::daemons;
use crate::end::{EMITTER, End};
use crate::line::{Ask, PATIENCE, PORT, Reply, write};
use crate::trial::{Burners, emit};

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
