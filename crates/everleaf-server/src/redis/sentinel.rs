//! SENTINEL: each node of a cluster knows who leads, and tells it as Redis' Sentinel does. The one
//! master that there is has the name `mymaster`.

use super::call::Call;
use super::cluster::view;
use super::failure::Outcome;
use crate::resp::argument::is;
use crate::resp::reply::Reply;
#[cfg(feature = "cluster")]
use crate::view::ends;
use crate::view::{Member, View};

/// The name of the master.
pub const MASTER: &str = "mymaster";
/// The channel that tells of a new one.
#[cfg(feature = "cluster")]
pub const SWITCHED: &str = "+switch-master";

type Place<'a> = (&'a Member, (&'a str, u16));

/// SENTINEL.
pub fn sentinel(call: &mut Call<'_, '_, '_>) -> Outcome {
    let view = view(call)?;
    let named = call.args.get(2).is_none_or(|name| *name == MASTER.as_bytes());
    match call.args[1] {
        what if is(what, "MYID") => call.reply.bulk(view.digits(view.me)),
        what if is(what, "MASTERS") => {
            let leader = view.leader();
            call.reply.array(leader.iter().len());
            leader.iter().for_each(|leader| master(&view, leader, &mut call.reply));
        }
        what if is(what, "GET-MASTER-ADDR-BY-NAME") => {
            match view.leader().filter(|_| named) {
                Some((_, (host, port))) => {
                    call.reply.array(2);
                    call.reply.bulk(host);
                    call.reply.bulk(port.to_string());
                }
                None => call.reply.null_array(),
            };
        }
        what if is(what, "HELP") => call.help(&[
            "CKQUORUM <master-name>",
            "    Check if the cluster has a leader.",
            "GET-MASTER-ADDR-BY-NAME <master-name>",
            "    Return the ip and port number of the master with that name.",
            "MASTER <master-name>",
            "    Show the state and info of the specified master.",
            "MASTERS",
            "    Show a list of monitored masters and their state.",
            "MYID",
            "    Return the id of this node.",
            "REPLICAS <master-name>",
            "    Show a list of replicas for this master and their state.",
            "SENTINELS <master-name>",
            "    Show a list of the other nodes.",
        ]),
        _ if !named => return Err("ERR No such master with that name".into()),
        what if is(what, "SENTINELS") => {
            let others = view.followers().chain(view.leader());
            let others: Vec<_> = others.filter(|(member, _)| member.id != view.me).collect();
            call.reply.array(others.len());
            others.iter().for_each(|place| other(&view, place, "sentinel", &mut call.reply));
        }
        what if is(what, "REPLICAS") || is(what, "SLAVES") => {
            let followers: Vec<_> = view.followers().collect();
            call.reply.array(followers.len());
            followers.iter().for_each(|place| other(&view, place, "slave", &mut call.reply));
        }
        what => match view.leader() {
            None => return Err("NOQUORUM no leader".into()),
            Some(leader) if is(what, "MASTER") => master(&view, &leader, &mut call.reply),
            Some(_) => {
                let count = view.members.len();
                call.reply.simple(&format!(
                    "OK {count} usable Sentinels. Quorum and failover authorization can be reached"
                ));
            }
        },
    }
    Ok(())
}

fn fields(reply: &mut Reply<'_>, fields: &[(&str, String)]) {
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name);
        reply.bulk(value);
    }
}

/// What is told of every node.
fn common(
    view: &View,
    (member, (host, port)): &Place<'_>,
    flags: &str,
) -> Vec<(&'static str, String)> {
    let zeros =
        ["link-pending-commands", "last-ping-sent", "last-ok-ping-reply", "last-ping-reply"];
    let mut fields = vec![
        ("name", format!("{host}:{port}")),
        ("ip", (*host).to_owned()),
        ("port", port.to_string()),
        ("runid", view.digits(member.id)),
        ("flags", flags.to_owned()),
        ("link-refcount", "1".to_owned()),
        ("down-after-milliseconds", "1000".to_owned()),
    ];
    fields.extend(zeros.map(|name| (name, "0".to_owned())));
    fields
}

fn master(view: &View, place: &Place<'_>, reply: &mut Reply<'_>) {
    let mut all = common(view, place, "master");
    all[0].1 = MASTER.to_owned();
    all.extend([
        ("info-refresh", "0".to_owned()),
        ("role-reported", "master".to_owned()),
        ("role-reported-time", "0".to_owned()),
        ("config-epoch", view.term.to_string()),
        ("num-slaves", view.followers().count().to_string()),
        ("num-other-sentinels", view.members.len().saturating_sub(1).to_string()),
        ("quorum", (view.always() + 1).to_string()),
        ("failover-timeout", "5000".to_owned()),
        ("parallel-syncs", "1".to_owned()),
    ]);
    fields(reply, &all);
}

/// A follower, as what Redis knows it.
fn other(view: &View, place: &Place<'_>, flags: &str, reply: &mut Reply<'_>) {
    let mut all = common(view, place, flags);
    let (host, port) = view.leader().map_or(("", 0), |(_, ends)| ends);
    if flags == "slave" {
        let status = if view.leader.is_some() { "ok" } else { "err" };
        all.extend([
            ("info-refresh", "0".to_owned()),
            ("role-reported", "slave".to_owned()),
            ("role-reported-time", "0".to_owned()),
            ("master-link-down-time", "0".to_owned()),
            ("master-link-status", status.to_owned()),
            ("master-host", host.to_owned()),
            ("master-port", port.to_string()),
            ("slave-priority", "100".to_owned()),
            ("slave-repl-offset", place.0.matched.unwrap_or(view.committed).to_string()),
        ]);
    } else {
        all.extend([
            ("last-hello-message", "0".to_owned()),
            ("voted-leader", "?".to_owned()),
            ("voted-leader-epoch", view.term.to_string()),
        ]);
    }
    fields(reply, &all);
}

/// What subscribers of [`SWITCHED`] are told when clients reach the leader at another address.
#[cfg(feature = "cluster")]
pub fn switched(before: &str, now: &str) -> String {
    let ((host, port), (new_host, new_port)) = (ends(before), ends(now));
    format!("{MASTER} {host} {port} {new_host} {new_port}")
}
