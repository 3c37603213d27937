//! CLUSTER and what is about it: a cluster of Everleaf is one shard, which its leader answers for.

use std::fmt::Write;

use super::call::Call;
use super::failure::{Failure, Outcome};
use crate::resp::argument::is;
use crate::resp::reply::Reply;
use crate::view::{Member, View, ends};

/// Slots, into which keys are divided.
const SLOTS: u16 = 16_384;
/// Keys that are looked at in one step, and their bytes.
const STEP: (usize, usize) = (10_000, 1 << 20);

/// What is said where nobody leads.
pub const NO_LEADER: &str = "CLUSTERDOWN no leader";

/// The slot of a key: by what stands between the first braces, if anything does.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16 with the polynomial 0x1021, as XMODEM has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0_u16, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| {
            sum << 1 ^ if sum & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

/// What is known of the cluster; the commands that ask are there only where there is one.
pub fn view(call: &Call<'_, '_, '_>) -> Outcome<View> {
    call.shared.view().ok_or("ERR This instance has cluster support disabled".into())
}

/// READONLY, READWRITE, ASKING: who leads answers everything.
pub fn accept(call: &mut Call<'_, '_, '_>) -> Outcome {
    call.reply.ok();
    Ok(())
}

/// CLUSTER.
pub fn cluster(call: &mut Call<'_, '_, '_>) -> Outcome {
    let view = view(call)?;
    match call.args[1] {
        what if is(what, "SLOTS") => slots(&view, &mut call.reply)?,
        what if is(what, "SHARDS") => shards(&view, &mut call.reply)?,
        what if is(what, "NODES") => call.reply.text(&nodes(&view)),
        what if is(what, "MYID") => call.reply.bulk(view.digits(view.me)),
        what if is(what, "INFO") => call.reply.text(&info(&view)),
        what if is(what, "KEYSLOT") => call.reply.integer(slot(call.args[2]).into()),
        what if is(what, "COUNTKEYSINSLOT") => {
            let keys = keys_of(call, usize::MAX)?;
            call.reply.count(keys.len());
        }
        what if is(what, "GETKEYSINSLOT") => {
            let most = call.at_least(3, 0, "ERR Invalid number of keys")?;
            let keys = keys_of(call, usize::try_from(most).unwrap_or(usize::MAX))?;
            call.reply.array(keys.len());
            keys.iter().for_each(|key| call.reply.bulk(key));
        }
        what if is(what, "COUNT-FAILURE-REPORTS") => call.reply.integer(0),
        what if is(what, "LINKS") => call.reply.array(0),
        _ => call.help(&[
            "COUNTKEYSINSLOT <slot>",
            "    Return the number of keys in <slot>.",
            "GETKEYSINSLOT <slot> <count>",
            "    Return key names stored by current node in a slot.",
            "INFO",
            "    Return information about the cluster.",
            "KEYSLOT <key>",
            "    Return the hash slot for <key>.",
            "MYID",
            "    Return the node id.",
            "NODES",
            "    Return cluster configuration seen by node.",
            "SHARDS",
            "    Return information about slot range mappings and the nodes associated with them.",
            "SLOTS",
            "    Return information about slots range mappings.",
        ]),
    }
    Ok(())
}

/// The keys of a slot in the selected database, so many at most. All keys are looked at.
fn keys_of(call: &Call<'_, '_, '_>, most: usize) -> Outcome<Vec<Vec<u8>>> {
    let wanted = u16::try_from(call.integer(2)?).ok().filter(|slot| *slot < SLOTS);
    let wanted = wanted.ok_or(Failure::Said("ERR Invalid slot"))?;
    if call.caller.leaves_long() {
        return Err(Failure::Locked); // It is done on a thread that others do not wait for.
    }
    let (mut keys, mut after) = (Vec::new(), None);
    while keys.len() < most {
        let listed = call.work.keys_after(call.database, after.as_deref(), STEP)?;
        let found = listed.keys.into_iter().map(|one| one.key).filter(|key| slot(key) == wanted);
        keys.extend(found);
        match listed.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    keys.truncate(most);
    Ok(keys)
}

/// The leader and then the others, with where clients reach them.
fn in_order(view: &View) -> Outcome<Vec<(&Member, (&str, u16))>> {
    let leader = view.leader().ok_or(Failure::Said(NO_LEADER))?;
    Ok(std::iter::once(leader).chain(view.followers()).collect())
}

fn slots(view: &View, reply: &mut Reply<'_>) -> Outcome {
    let members = in_order(view)?;
    reply.array(1);
    reply.array(2 + members.len());
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    for (member, (host, port)) in members {
        reply.array(4);
        reply.bulk(host);
        reply.integer(port.into());
        reply.bulk(view.digits(member.id));
        reply.array(0);
    }
    Ok(())
}

fn shards(view: &View, reply: &mut Reply<'_>) -> Outcome {
    let members = in_order(view)?;
    reply.array(1);
    reply.map(2);
    reply.bulk("slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    reply.bulk("nodes");
    reply.array(members.len());
    for (member, (host, port)) in members {
        reply.map(7);
        reply.bulk("id");
        reply.bulk(view.digits(member.id));
        reply.bulk("port");
        reply.integer(port.into());
        let role = if Some(member.id) == view.leader { "master" } else { "replica" };
        for (name, value) in [("ip", host), ("endpoint", host), ("role", role)] {
            reply.bulk(name);
            reply.bulk(value);
        }
        reply.bulk("replication-offset");
        reply.integer(member.matched.unwrap_or(view.committed) as i64);
        reply.bulk("health");
        reply.bulk("online");
    }
    Ok(())
}

fn nodes(view: &View) -> String {
    let mut text = String::new();
    let leader = view.leader.map_or("-".to_owned(), |leader| view.digits(leader));
    for member in &view.members {
        let Some(redis) = &member.redis else { continue };
        let ((host, port), (_, peers)) = (ends(redis), ends(&member.raft));
        let leads = Some(member.id) == view.leader;
        let myself = if member.id == view.me { "myself," } else { "" };
        let role = if leads { "master" } else { "slave" };
        let (of, slots) = if leads { ("-", " 0-16383") } else { (&leader[..], "") };
        let id = view.digits(member.id);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{id} {host}:{port}@{peers} {myself}{role} {of} 0 0 {} connected{slots}",
            view.term
        );
    }
    text
}

fn info(view: &View) -> String {
    let (state, served) = if view.leader.is_some() { ("ok", SLOTS) } else { ("fail", 0) };
    let (nodes, term) = (view.members.len(), view.term);
    format!(
        "cluster_enabled:1\r\ncluster_state:{state}\r\ncluster_slots_assigned:{SLOTS}\r\n\
         cluster_slots_ok:{served}\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:{}\r\n\
         cluster_known_nodes:{nodes}\r\ncluster_size:1\r\ncluster_current_epoch:{term}\r\n\
         cluster_my_epoch:{term}\r\n",
        SLOTS - served
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The check value of CRC-16/XMODEM, and what CLUSTER KEYSLOT of Redis 7 says.
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, expected) in [
            ("", 0),
            ("foo", 12182),
            ("bar", 5061),
            ("somekey", 11058),
            ("foo{hash_tag}", 2515),
            ("bar{hash_tag}", 2515),
            ("{user1000}.following", 3443),
            ("user1000", 3443),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        // Nothing between the first braces, or no end of them: the whole key.
        for key in ["foo{}{bar}", "foo{", "foo}{"] {
            assert_eq!(slot(key.as_bytes()), crc16(key.as_bytes()) % SLOTS, "{key}");
        }
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
    }
}
