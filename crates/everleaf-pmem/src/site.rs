//! Names of barriers.

use std::fmt;

/// The name of one barrier (a flush, a fence, an `order`) in the code, such as
/// `fptree.insert.P1.entry`. Each barrier has a name of its own, so that it can be counted, and
/// suppressed by the explorer to prove that it is needed. A barrier is declared where it stands,
/// and nowhere else: lists of them are made of the code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(&'static str);

impl Site {
    /// Use [`site!`](crate::site!).
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The name, dots between its parts.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Names a barrier: `media.fence(site!("fptree.insert.P1.fence"))`.
#[macro_export]
macro_rules! site {
    ($name:literal) => {
        const { $crate::Site::new($name) }
    };
}
