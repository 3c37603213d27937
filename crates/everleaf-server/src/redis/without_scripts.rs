//! What stands for scripts in a build without them.

use super::call::Call;
use super::failure::{Failure, Outcome};
use crate::shared::Shared;

/// EVAL and its like.
pub fn eval(_: &mut Call<'_, '_, '_>) -> Outcome {
    Err(Failure::Said(
        "ERR this program was built without scripts; build it with --features scripts",
    ))
}

/// Scripts that are kept: none.
pub fn cached(_: &Shared) -> (usize, usize) {
    (0, 0)
}

/// Whether a script writes nothing: there is none.
pub fn writes_nothing(_: &Shared, _: &[&[u8]]) -> bool {
    true
}

/// Libraries of functions: none.
pub fn counts(_: &Shared) -> [usize; 3] {
    [0; 3]
}

pub use eval as evalsha;
pub use eval as eval_ro;
pub use eval as evalsha_ro;
pub use eval as fcall;
pub use eval as fcall_ro;
pub use eval as function;
pub use eval as script;
