//! `ringwatch top`: the jobs of this node, live in the terminal.
//!
//! One thread asks for reports, one per daemon hears events; the loop of the terminal waits for neither.

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input, KeyCode, KeyEventKind, KeyModifiers};
use rdma_heartbeat::history::{Record, feed};
use rdma_heartbeat::report::status::{self, Report};

use crate::heard::{job_of, listen};
use crate::reports;
use crate::wanted::Wanted;
use screen::Screen;

mod screen;
mod tables;

/// Time between two questions to the daemons.
const EVERY: Duration = Duration::from_millis(250);
/// How long the loop waits for a key.
const TURN: Duration = Duration::from_millis(50);
/// Lines of a page.
const PAGE: i32 = 10;

/// The command line of `ringwatch top`.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
}

/// Shows the jobs until the user leaves.
pub fn show(Arguments { wanted }: &Arguments) -> ExitCode {
    let (tell_reports, reports) = channel();
    let (tell_records, records) = channel();
    let asked = wanted.clone();
    std::thread::spawn(move || ask(&asked, &tell_reports, &tell_records));
    let ended = ratatui::try_init().and_then(|mut terminal| {
        let ended = run(&mut terminal, &reports, &records);
        ratatui::restore();
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ringwatch: the terminal cannot be used: {error}.");
            ExitCode::FAILURE
        }
    }
}

/// What is asked for: the reports, or why there are none.
type Asked = Result<Vec<Report>, String>;

/// Asks the daemons again and again, and has a thread listen to each that has not been heard.
fn ask(wanted: &Wanted, tell: &Sender<Asked>, records: &Sender<Record>) {
    let mut heard: BTreeMap<String, std::thread::JoinHandle<()>> = BTreeMap::new();
    loop {
        heard.retain(|_, thread| !thread.is_finished());
        if let Ok(names) = status::sockets(feed::PREFIX) {
            // Node 0 tells what all nodes do.
            let whole = |name: &String| name.ends_with("/0") || !names.contains(&format!("{}/0", job_of(name)));
            for name in names.iter().filter(|name| whole(name)) {
                if !heard.contains_key(name) {
                    let (to, records) = (name.clone(), records.clone());
                    let hear = move || {
                        if let Ok(stream) = feed::call(&to, true) {
                            listen(&to, stream, &records);
                        }
                    };
                    heard.insert(name.clone(), std::thread::spawn(hear));
                }
            }
        }
        let asked = reports::ask(wanted).map(|(reports, _)| reports);
        if tell.send(asked.map_err(|error| error.to_string())).is_err() {
            return;
        }
        std::thread::sleep(EVERY);
    }
}

fn run(terminal: &mut DefaultTerminal, reports: &Receiver<Asked>, records: &Receiver<Record>) -> io::Result<()> {
    let (mut screen, mut is_old) = (Screen::default(), true);
    loop {
        while let Ok(asked) = reports.try_recv() {
            screen.take_reports(asked);
            is_old = true;
        }
        while let Ok(record) = records.try_recv() {
            screen.take_record(record);
            is_old = true;
        }
        if std::mem::take(&mut is_old) {
            terminal.draw(|frame| screen.draw(frame))?;
        }
        if event::poll(TURN)? {
            if !is_key_taken(&mut screen, &event::read()?) {
                return Ok(());
            }
            is_old = true;
        }
    }
}

/// Acts on a key; false if the user leaves.
fn is_key_taken(screen: &mut Screen, input: &Input) -> bool {
    let Input::Key(key) = input else { return true };
    if key.kind == KeyEventKind::Release {
        return true;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('a') => screen.toggle_events(),
        KeyCode::Tab => screen.choose(1),
        KeyCode::BackTab => screen.choose(-1),
        KeyCode::Down => screen.scroll(1),
        KeyCode::Up => screen.scroll(-1),
        KeyCode::PageDown => screen.scroll(PAGE),
        KeyCode::PageUp => screen.scroll(-PAGE),
        _ => {}
    }
    true
}
