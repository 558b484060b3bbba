//! What another machine carries for this host.

use propagation::{Action, Fact, Message, NodeId, RankReason, StopReason, Subject, Time};
use tracing::info;

use super::{Daemon, Link};
use crate::history::Event;
use crate::launch::FromDaemon;
use crate::offload::{News, ToService, View};
use crate::segment::FLAG_HELD;

impl Daemon {
    /// Sends a message that is not the member's.
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

    /// The service is a member of the ring. Nobody knows what an earlier one came to announce.
    fn service_joined(&mut self, roster: Vec<std::net::SocketAddr>, now: Time) {
        self.control.send(&FromDaemon::Roster(roster));
        self.ready_told = false;
        let dead: Vec<u32> = self.startup.own_ranks().filter(|rank| self.job.is_dead(*rank)).collect();
        let Link::Offloaded(host) = &mut self.link else { return };
        let &View { emitter, observer, .. } = host.view();
        info!(?emitter, ?observer, server = host.server(), "is served");
        self.chronicle.note(now, Event::Watching { emitter, observer });
        dead.into_iter().for_each(|rank| host.announce(rank, RankReason::Reported));
        self.waiting.iter().for_each(|(rank, reason)| host.announce(*rank, *reason));
        if self.resigned {
            host.tell(&ToService::Resign);
        }
    }
}
