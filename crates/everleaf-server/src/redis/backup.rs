//! Backups: BGSAVE, SAVE and LASTSAVE. A client chooses neither folder nor name.

use super::call::Call;
use super::failure::{Failure, Outcome, SYNTAX};
use crate::backup::Refused;
use crate::resp::argument::is;

/// A backup may take long, and a transaction keeps others out: so it waits for none.
pub const NOT_QUEUED: &str = "ERR Command not allowed inside a transaction";
/// The log has the names of files, which are not for clients.
const FAILED: &str = "ERR the backup failed; the log of the server says why";

/// Whether a command makes a backup, whose beginning or end it waits for.
pub fn is_backup(name: &[u8]) -> bool {
    is(name, "BGSAVE") || is(name, "SAVE")
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::Said(match refused {
            Refused::NoFolder => {
                "ERR this server makes no backups; start it with `everleaf serve --backups DIR`"
            }
            Refused::InProgress => "ERR Background save already in progress",
            Refused::Ending => "ERR the server stops",
            Refused::NoThread => FAILED,
        })
    }
}

/// BGSAVE: the reply comes when the moment is fixed that the backup will show.
pub fn bgsave(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.rest(1) {
        [] => {}
        [when] if is(when, "SCHEDULE") => {} // Nothing else is waited for.
        _ => return Err(SYNTAX.into()),
    }
    let steps = call.shared.backups.begin(&call.shared.data)?;
    steps.recv().map_err(|_| FAILED)?;
    call.reply.simple("Background saving started");
    Ok(())
}

/// SAVE: the reply comes when the backup is complete and on its medium.
pub fn save(call: &mut Call<'_, '_, '_>) -> Outcome {
    let steps = call.shared.backups.begin(&call.shared.data)?;
    steps.recv().and_then(|()| steps.recv()).map_err(|_| FAILED)?;
    call.reply.ok();
    Ok(())
}

/// LASTSAVE.
pub fn lastsave(call: &mut Call<'_, '_, '_>) -> Outcome {
    let saved_ms = call.shared.backups.last().saved_ms;
    call.reply.integer((saved_ms / 1000) as i64);
    Ok(())
}
