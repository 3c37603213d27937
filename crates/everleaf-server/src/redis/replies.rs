//! Which replies a client wants: CLIENT REPLY.

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All.
    #[default]
    All,
    /// None.
    None,
    /// Not that to the next request.
    NotNext,
    /// Not that to this request.
    NotThis,
}

impl Replies {
    /// What is wanted of the request that begins now.
    pub fn next(self) -> Self {
        match self {
            Self::NotNext => Self::NotThis,
            Self::NotThis => Self::All,
            other => other,
        }
    }

    /// Whether there is no reply to this request.
    pub fn is_silent(self) -> bool {
        matches!(self, Self::None | Self::NotThis)
    }
}
