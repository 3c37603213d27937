//! SWAPDB: the keys of two databases change places.
//!
//! A row begins with the number of its database, so the keys are written anew, all of them as one
//! batch; the parts of collections stay where they are. What that takes has a limit.

use super::call::{Call, database};
use super::failure::{Failure, Outcome};
use crate::data::{HEADER_BYTES, Header, key_row};
use crate::resp::number::integer;

/// Keys that change places, at most.
const KEYS: usize = 1 << 16;
/// Keys that are looked at together.
const LISTED: usize = 1024;

/// A key where it goes to: its row, what it holds, and the row where it was.
struct Moved {
    from: Vec<u8>,
    to: Vec<u8>,
    header: Header,
    body: Vec<u8>,
}

/// Adds the keys of a database that go to another one, and counts their bytes.
fn collect(
    call: &Call<'_, '_, '_>,
    (from, to): (u8, u8),
    moved: &mut Vec<Moved>,
    bytes: &mut u64,
) -> Outcome {
    let most_bytes = call.shared.options.limits.waiting_bytes();
    let mut after = None::<Vec<u8>>;
    loop {
        let listed = call.work.keys_after(from, after.as_deref(), (LISTED, usize::MAX))?;
        for listed in &listed.keys {
            let row = key_row(from, &listed.key);
            let Some((header, value)) = call.work.value(&row)? else { continue };
            *bytes += (row.len() + value.len()) as u64;
            if moved.len() >= KEYS || *bytes > most_bytes {
                return Err(Failure::Text(format!(
                    "ERR SWAPDB writes all keys anew here, at most {KEYS} with {most_bytes} bytes"
                )));
            }
            let (to, body) = (key_row(to, &listed.key), value[HEADER_BYTES..].to_vec());
            moved.push(Moved { from: row, to, header, body });
        }
        after = listed.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// SWAPDB.
pub fn swapdb(call: &mut Call<'_, '_, '_>) -> Outcome {
    for (at, which) in [(1, "first"), (2, "second")] {
        if integer(call.args[at]).is_none() {
            return Err(Failure::Text(format!("ERR invalid {which} DB index")));
        }
    }
    let (one, other) = (database(call.args[1])?, database(call.args[2])?);
    call.reply.ok();
    if one == other {
        return Ok(());
    }
    let (mut moved, mut bytes) = (Vec::new(), 0);
    for ends in [(one, other), (other, one)] {
        collect(call, ends, &mut moved, &mut bytes)?;
    }
    for key in &moved {
        // What expired may still lie there.
        if call.work.is_missing(&key.to)? {
            call.work.remove_key(&key.to)?;
        }
    }
    moved.iter().for_each(|key| call.work.delete(key.from.clone()));
    for Moved { to, header, body, .. } in moved {
        let sequence = call.work.data.next_number()?;
        call.work.put(to, Header { sequence, cas: sequence, ..header }.with(&body));
    }
    Ok(())
}
