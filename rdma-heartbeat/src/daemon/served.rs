//! Connects the daemon with the machine that serves this host.

use node_abi::launch::FromDaemon;
use node_abi::segment::FLAG_HELD;
use propagation::{Action, Fact, Message, NodeId, RankReason, StopReason, Subject, Time};
use tracing::info;

use super::{Daemon, Link};
use crate::history::Event;
use crate::offload::{News, ToService, View};

impl Daemon {
    /// Sends a message that does not come from the member.
    pub(super) fn send(&mut self, to: NodeId, message: &Message) {
        match (&mut self.link, &mut self.network) {
            (Link::Offloaded(host), _) => host.send(to, message),
            (_, Some(network)) => network.send(to, message),
            (_, None) => {}
        }
    }

    pub(super) fn take_service(&mut self, now: Time) {
        if let Link::Offloaded(host) = &mut self.link {
            host.take(now, &self.poller, &mut self.news);
            self.follow_news(now);
        }
    }

    pub(super) fn continue_with_service(&mut self, now: Time) {
        if let (Link::Offloaded(host), None) = (&mut self.link, &self.ending) {
            let known = || (self.job.dead_nodes().collect(), self.segment.flags() & FLAG_HELD != 0);
            host.tick(now, known, &self.poller, &mut self.news);
            self.follow_news(now);
        }
    }

    fn follow_news(&mut self, now: Time) {
        for news in std::mem::take(&mut self.news) {
            match news {
                News::Joined(roster) => self.service_joined(roster, now),
                News::Act(action) => {
                    if let Action::Deliver(Fact { subject: Subject::Rank { rank, .. }, .. }) = action {
                        self.waiting.retain(|(waiting, _)| *waiting != rank);
                    }
                    self.actions.push(action);
                }
                News::Arrived(from, message @ (Message::AllStopped { .. } | Message::JobSuspended)) => {
                    self.hear_of_suspension(now, from, &message);
                }
                News::Arrived(from, message @ Message::Logger { .. }) => self.hear_logger(now, from, &message),
                News::Arrived(from, message) => {
                    if let Some(answer) = self.chronicle.take(now, from, &message) {
                        self.send(from, &answer);
                    }
                }
                News::CutOff => self.stop(StopReason::CutOff, now),
            }
            self.perform(now);
        }
    }

    /// Joins the ring through the service. An earlier service may have died before it announced everything.
    fn service_joined(&mut self, roster: Vec<std::net::SocketAddr>, now: Time) {
        self.control.send(&FromDaemon::Roster(roster));
        self.ready_told = false;
        let dead: Vec<u32> = self.startup.own_ranks().filter(|rank| self.job.is_dead(*rank)).collect();
        let Link::Offloaded(host) = &mut self.link else { return };
        let &View { emitter, observer, .. } = host.view();
        info!(?emitter, ?observer, server = host.server(), "is served");
        self.chronicle.note(now, Event::Watching { emitter, observer });
        self.segment.let_ranks_in();
        dead.into_iter().for_each(|rank| host.announce(rank, RankReason::Reported));
        self.waiting.iter().for_each(|(rank, reason)| host.announce(*rank, *reason));
        if self.resigned {
            host.tell(&ToService::Resign);
        }
    }
}
