//! Commands about the server and its databases.

use std::time::Duration;

use everleaf::DurabilityMode;

use super::call::{Call, Wait};
use super::failure::{Outcome, SYNTAX};
use crate::data::{Awaited, DATABASES, Kind};
use crate::resp::argument::is;

/// DBSIZE.
pub fn dbsize(call: &mut Call<'_, '_, '_>) -> Outcome {
    let keys = call.work.count_keys(call.database)?;
    call.reply.integer(keys as i64);
    Ok(())
}

fn flush(call: &mut Call<'_, '_, '_>, databases: std::ops::Range<u8>) -> Outcome {
    match call.rest(1) {
        [] => {}
        [how] if is(how, "ASYNC") || is(how, "SYNC") => {}
        _ => return Err(SYNTAX.into()),
    }
    call.work.flush(databases)?;
    call.reply.ok();
    Ok(())
}

/// FLUSHDB.
pub fn flushdb(call: &mut Call<'_, '_, '_>) -> Outcome {
    flush(call, call.database..call.database + 1)
}

/// FLUSHALL.
pub fn flushall(call: &mut Call<'_, '_, '_>) -> Outcome {
    flush(call, 0..DATABASES)
}

/// SHUTDOWN: who operates the server stops it.
pub fn shutdown(_: &mut Call<'_, '_, '_>) -> Outcome {
    Err("ERR a client does not stop this server; its process ends at SIGTERM".into())
}

/// ECHO.
pub fn echo(call: &mut Call<'_, '_, '_>) -> Outcome {
    call.reply.bulk(call.args[1]);
    Ok(())
}

/// TIME.
pub fn time(call: &mut Call<'_, '_, '_>) -> Outcome {
    let now_ms = call.work.now_ms;
    call.reply.array(2);
    call.reply.bulk((now_ms / 1000).to_string());
    call.reply.bulk((now_ms % 1000 * 1000).to_string());
    Ok(())
}

/// What a connection has written is durable when it is replied to, but where writes are durable
/// late and no others have them.
fn sync(call: &Call<'_, '_, '_>) -> Outcome {
    let mode = call.work.data.durability_mode();
    // Who has waited for replicas has synced before.
    let has_synced = call.blocking.place.is_some() || call.shared.options.look.is_some();
    if matches!(mode, DurabilityMode::Buffered { .. }) && !has_synced {
        call.work.data.sync()?;
    }
    Ok(())
}

/// How many replicas have what was written; it waits for more, if more are wanted. A single server
/// has none, and waits for as long as they are waited for. In a cluster the reply is held until a
/// majority has it; whoever has waited has sent all replies before.
fn replicas(call: &mut Call<'_, '_, '_>, wanted: i64, timeout: usize) -> Outcome<i64> {
    /// How often they are looked at.
    const PAUSE: Duration = Duration::from_millis(5);
    let timeout = call.timeout_ms(timeout)?;
    let view = call.shared.view();
    let has_waited = call.blocking.place.is_some();
    let there = view.as_ref().map_or(0, |view| match has_waited {
        true => view.up_to_date().max(view.always()),
        false => view.always(),
    });
    let there = there as i64;
    if wanted > there && call.blocking.may_wait {
        let (rows, awaited) = (Vec::new(), Awaited::default());
        let again = view.map(|_| PAUSE);
        call.blocking.wait = Some(Wait { rows, kind: Kind::String, awaited, timeout, again });
    }
    Ok(there)
}

/// WAIT: there are no replicas; what was written is durable when this is answered.
pub fn wait(call: &mut Call<'_, '_, '_>) -> Outcome {
    let wanted = call.integer(1)?;
    let there = replicas(call, wanted, 2)?;
    sync(call)?;
    call.reply.integer(there);
    Ok(())
}

/// WAITAOF: the pool is the only copy; what was written is durable when this is answered.
pub fn waitaof(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (_, wanted) = (call.range(1, 0, 1)?, call.integer(2)?);
    if wanted < 0 {
        return Err("ERR value is out of range, must be positive".into());
    }
    let there = replicas(call, wanted, 3)?;
    sync(call)?;
    call.reply.array(2);
    call.reply.integer(1);
    call.reply.integer(there);
    Ok(())
}
