//! The same program on other hosts, by the remote shell: one line of each at a time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::facts::now_us;

/// Longest line that a host may send, in bytes.
const LONGEST: u64 = 1 << 20;
/// Most of a message of the remote shell that is shown, in bytes.
const MESSAGE: u64 = 300;

/// A line with the moment when it came, in microseconds since 1970, or why none came.
pub type Answer = Result<(u64, String), String>;

/// One host.
pub struct Call {
    child: Option<Child>,
    input: Option<ChildStdin>,
    answers: Receiver<Answer>,
}

impl Call {
    /// Starts `command` on `host`.
    pub fn start(agent: &str, host: &str, command: &str) -> Self {
        let (told, answers) = channel();
        let mut words = agent.split_whitespace();
        let mut shell = Command::new(words.next().unwrap_or("ssh"));
        shell.args(words).arg(host).arg(command);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match shell.spawn() {
            Ok(mut child) => {
                let input = child.stdin.take();
                let (output, errors) = (child.stdout.take(), child.stderr.take());
                std::thread::spawn(move || listen(output, errors, &told));
                Self { child: Some(child), input, answers }
            }
            Err(error) => {
                let _ = told.send(Err(format!("{agent} cannot be started: {error}")));
                Self { child: None, input: None, answers }
            }
        }
    }
}

/// Sends each line of the output, and at its end what the remote shell has said last.
fn listen(output: Option<impl std::io::Read>, errors: Option<impl std::io::Read>, told: &Sender<Answer>) {
    let Some(output) = output else { return };
    // Not `lines`: a host may send without end.
    let mut output = BufReader::new(output);
    let mut lines = 0;
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(1..) => {
                lines += 1;
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if lines > 2 || told.send(Ok((now_us(), line))).is_err() {
                    return;
                }
            }
            _ => break,
        }
    }
    let mut said = Vec::new();
    let _ = errors.map(|errors| errors.take(MESSAGE).read_to_end(&mut said));
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("the remote shell has ended");
    let _ = told.send(Err(last.trim_end_matches('.').to_owned()));
}

/// All hosts.
#[derive(Default)]
pub struct Calls {
    calls: Vec<Call>,
}

impl Calls {
    /// Adds one.
    pub fn add(&mut self, call: Call) {
        self.calls.push(call);
    }

    /// The next line of each, which all have `patience` for together.
    pub fn answers(&self, patience: Duration) -> Vec<Answer> {
        let until = Instant::now() + patience;
        let next = |call: &Call| {
            let rest = until.saturating_duration_since(Instant::now());
            let silent = || Err(format!("no answer within {} s", patience.as_secs()));
            call.answers.recv_timeout(rest).unwrap_or_else(|_| silent())
        };
        self.calls.iter().map(next).collect()
    }

    /// Sends a line to one, if that lives.
    pub fn tell(&mut self, index: usize, line: &str) {
        if let Some(input) = self.calls[index].input.as_mut() {
            // Who has ended does not answer either.
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        for call in &mut self.calls {
            drop(call.input.take());
            if let Some(mut child) = call.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
