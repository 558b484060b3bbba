//! What `ringwatch top` shows: no I/O but the drawing into a frame.

use std::collections::{BTreeSet, VecDeque};

use cli::timeline;
use platform::terminal;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use rdma_heartbeat::history::{Event, Record};
use rdma_heartbeat::report::status::Report;

use super::tables;
use crate::status::ring;

/// How many events are kept for the list.
const MOST_EVENTS: usize = 1000;

/// The state of the view.
#[derive(Debug, Default)]
pub struct Screen {
    reports: Vec<Report>,
    problem: Option<String>,
    is_asked: bool,
    records: VecDeque<Record>,
    chosen: usize,
    scrolled: u16,
    /// Whether the list has every event.
    has_all: bool,
}

impl Screen {
    /// Takes what the daemons have answered.
    pub fn take_reports(&mut self, asked: Result<Vec<Report>, String>) {
        self.is_asked = true;
        match asked {
            Ok(reports) => (self.reports, self.problem) = (reports, None),
            Err(problem) => self.problem = Some(problem),
        }
        self.chosen = self.chosen.min(self.reports.len().saturating_sub(1));
    }

    /// Takes an event. Those of one job stand in the order of its axis.
    pub fn take_record(&mut self, record: Record) {
        let is_before =
            |one: &&Record| (&one.job, one.clock) == (&record.job, record.clock) && one.at_us > record.at_us;
        let later = self.records.iter().rev().take_while(is_before).count();
        self.records.insert(self.records.len() - later, record);
        if self.records.len() > MOST_EVENTS {
            self.records.pop_front();
        }
    }

    /// Shows another report.
    pub fn choose(&mut self, step: i64) {
        let count = self.reports.len().max(1) as i64;
        self.chosen = (self.chosen as i64 + step).rem_euclid(count) as usize;
        self.scrolled = 0;
    }

    /// Shows every event, or only losses and recoveries again.
    pub fn toggle_events(&mut self) {
        self.has_all = !self.has_all;
    }

    /// Moves the tables.
    pub fn scroll(&mut self, lines: i32) {
        self.scrolled = u16::try_from(i32::from(self.scrolled) + lines).unwrap_or(0);
    }

    /// Draws all of it.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let events = (area.height / 3).max(4);
        let [title, head, middle, list, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(4),
            Constraint::Min(4),
            Constraint::Length(events),
            Constraint::Length(1),
        ])
        .areas(area);
        let count = self.reports.len();
        let jobs = self.reports.iter().map(|report| (report.user, &report.job)).collect::<BTreeSet<_>>().len();
        let text = format!("ringwatch top: {jobs} job{} on this node", if jobs == 1 { "" } else { "s" });
        frame.render_widget(Line::from(text).bold().reversed(), title);
        let keys_text = "q leave   Tab next job   a all events   arrows, Page Up, Page Down scroll";
        frame.render_widget(Line::from(keys_text).dim(), keys);
        match self.reports.get(self.chosen) {
            Some(report) => {
                draw_head(frame, head, report, (self.chosen, count));
                let [nodes, ranks] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(middle);
                let scrolled = [
                    draw_table(frame, nodes, "nodes", &tables::NODES, &tables::nodes(report), self.scrolled),
                    draw_table(frame, ranks, "ranks", &tables::RANKS, &tables::ranks(report), self.scrolled),
                ];
                self.scrolled = self.scrolled.min(scrolled[0].max(scrolled[1]));
            }
            None => frame.render_widget(Paragraph::new(self.nothing()), head),
        }
        self.draw_events(frame, list);
    }

    fn nothing(&self) -> String {
        match (&self.problem, self.is_asked) {
            (Some(problem), _) => format!("The list of local sockets cannot be read: {problem}."),
            (None, false) => "Asking ...".into(),
            (None, true) => {
                "No ringwatchd of yours runs on this node; mpirun starts it for jobs with --with-ft ulfm.".into()
            }
        }
    }

    fn draw_events(&self, frame: &mut Frame<'_>, area: Rect) {
        let block = Block::bordered().title(if self.has_all { "events" } else { "losses and recoveries" });
        let room = usize::from(block.inner(area).height);
        let chosen = self.reports.get(self.chosen);
        let is_shown = |record: &&Record| {
            chosen.is_none_or(|report| report.job == record.job && record.user.is_none_or(|user| user == report.user))
                && (self.has_all || is_news(record))
        };
        let mut shown: Vec<&Record> = self.records.iter().rev().filter(is_shown).take(room + 1).collect();
        shown.reverse();
        let lines: Vec<Line<'_>> = (0..shown.len())
            .skip(usize::from(shown.len() > room))
            .map(|index| {
                let before = index.checked_sub(1).map(|before| shown[before]);
                let text = timeline::line(shown[index], before);
                Line::styled(text.trim_end().to_owned(), style(&shown[index].event))
            })
            .collect();
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }
}

/// Whether an event is a loss, a recovery or a doubt. A death is one event, though each node learns of it.
fn is_news(record: &Record) -> bool {
    match &record.event {
        Event::RankDead { .. } | Event::NodeDead { .. } => record.node == record.clock,
        Event::Started { incarnation, .. } => *incarnation > 0,
        Event::Raised { .. }
        | Event::Error { .. }
        | Event::Watching { .. }
        | Event::Replica { .. }
        | Event::Measured { .. }
        | Event::Farewell { .. } => false,
        _ => true,
    }
}

/// Losses are bold, recoveries underlined: it is told without colour, too.
fn style(event: &Event) -> Style {
    match event {
        Event::Observed { .. } | Event::RankDead { .. } | Event::NodeDead { .. } | Event::RuntimeLost { .. } => {
            Style::new().red().bold()
        }
        Event::Finding { .. } => Style::new().red().bold(),
        Event::Suspected { .. }
        | Event::Asked { .. }
        | Event::ConnectionLost { .. }
        | Event::Late { .. }
        | Event::Evicted { .. } => Style::new().yellow(),
        Event::Replaced { .. }
        | Event::Repeated { .. }
        | Event::Returned { .. }
        | Event::Spared { .. }
        | Event::Released => Style::new().green().underlined(),
        _ => Style::new(),
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, report: &Report, (chosen, count): (usize, usize)) {
    let lines = tables::head(report, (chosen, count)).map(|line| Line::from(safe(&line)));
    let ring = Line::from(format!("ring: {}", safe(&ring(report))));
    frame.render_widget(Paragraph::new(lines.into_iter().chain([ring]).collect::<Vec<_>>()), area);
}

/// Draws a table from one of its rows on, and returns how far it can be moved.
fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    columns: &[(&'static str, u16)],
    rows: &[tables::Shown],
    scrolled: u16,
) -> u16 {
    let block = Block::bordered().title(format!("{title} ({})", rows.len()));
    let room = usize::from(block.inner(area).height).saturating_sub(1);
    let most = rows.len().saturating_sub(room);
    let from = usize::from(scrolled).min(most);
    let row = |shown: &tables::Shown| {
        let style = if shown.is_dead { Style::new().red().add_modifier(Modifier::BOLD) } else { Style::new() };
        Row::new(shown.cells.iter().map(|cell| safe(cell)).collect::<Vec<_>>()).style(style)
    };
    let widths = columns.iter().map(|(_, width)| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let table = Table::new(rows.iter().skip(from).take(room).map(row), widths)
        .header(Row::new(columns.iter().map(|(name, _)| *name)).dim())
        .block(block);
    frame.render_widget(table, area);
    u16::try_from(most).unwrap_or(u16::MAX)
}

/// Names come from other nodes.
fn safe(text: &str) -> String {
    terminal::line(text).trim_end_matches('\n').to_owned()
}
