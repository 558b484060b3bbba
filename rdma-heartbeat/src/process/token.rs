//! Identifies sources of wakeups of the daemon's loop, for its [`Poller`](platform::poller::Poller).

/// A source that became readable, or hung up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The control socket.
    Control,
    /// The transport.
    Network,
    /// The process descriptor of the runtime daemon.
    Runtime,
    /// The process descriptor of the rank in a slot.
    Rank(u32),
    /// The waiting thread of [`crate::detector::lifeline`].
    Lifelines,
    /// The socket for status queries, or a connection to it.
    Status,
    /// The socket for history queries, or a connection to it.
    Feed,
    /// The other side of an offload.
    Offload,
    /// An answer of [`platform::inquiry`].
    Inquiry,
    /// The socket on which ranks call the event logger.
    Logger,
    /// The socket on which ranks tell of their groups of recommended processes.
    Group,
    /// The connection with this number to the event logger.
    Writer(u32),
}

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        match token {
            Token::Control => 0,
            Token::Network => 1,
            Token::Runtime => 2,
            Token::Status => 3,
            Token::Lifelines => 4,
            Token::Feed => 5,
            Token::Offload => 6,
            Token::Inquiry => 7,
            Token::Logger => 8,
            Token::Group => 9,
            Token::Writer(number) => 2 << 32 | Self::from(number),
            Token::Rank(slot) => 1 << 32 | Self::from(slot),
        }
    }
}

impl From<u64> for Token {
    fn from(code: u64) -> Self {
        match code {
            0 => Self::Control,
            1 => Self::Network,
            2 => Self::Runtime,
            3 => Self::Status,
            4 => Self::Lifelines,
            5 => Self::Feed,
            6 => Self::Offload,
            7 => Self::Inquiry,
            8 => Self::Logger,
            9 => Self::Group,
            code if code >> 32 == 2 => Self::Writer((code & u64::from(u32::MAX)) as u32),
            code => Self::Rank((code & u64::from(u32::MAX)) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_their_encoding() {
        for token in [
            Token::Control,
            Token::Network,
            Token::Runtime,
            Token::Rank(0),
            Token::Rank(u32::MAX),
            Token::Status,
            Token::Feed,
            Token::Offload,
            Token::Inquiry,
            Token::Logger,
            Token::Group,
            Token::Writer(0),
            Token::Writer(u32::MAX),
        ] {
            assert_eq!(Token::from(u64::from(token)), token);
        }
    }
}
