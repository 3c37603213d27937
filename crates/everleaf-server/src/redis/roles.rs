//! What there is one of: a role, a user, no module.

use super::VERSION;
use super::call::Call;
use super::command_groups::{CATEGORIES, categories};
use super::failure::{Failure, Outcome};
use crate::process;
use crate::resp::argument::is;

/// ROLE: there are no replicas but the followers of a cluster.
pub fn role(call: &mut Call<'_, '_, '_>) -> Outcome {
    let view = call.shared.view().unwrap_or_default();
    let reply = &mut call.reply;
    if view.leader.is_some() && view.leads() || view.members.is_empty() {
        let followers: Vec<_> = view.followers().collect();
        reply.array(3);
        reply.bulk("master");
        reply.integer(view.committed as i64);
        reply.array(followers.len());
        for (member, (host, port)) in followers {
            reply.array(3);
            reply.bulk(host);
            reply.bulk(port.to_string());
            reply.bulk(member.matched.unwrap_or(0).to_string());
        }
        return Ok(());
    }
    let leader = view.leader();
    let (host, port) = leader.map_or(("", 0), |(_, ends)| ends);
    reply.array(5);
    reply.bulk("slave");
    reply.bulk(host);
    reply.integer(port.into());
    reply.bulk(if leader.is_some() { "connected" } else { "connect" });
    reply.integer(view.committed as i64);
    Ok(())
}

/// FAILOVER.
pub fn failover(_: &mut Call<'_, '_, '_>) -> Outcome {
    Err("ERR FAILOVER requires connected replicas.".into())
}

/// MODULE.
pub fn module(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.args[1] {
        what if is(what, "LIST") => call.reply.array(0),
        _ => call.help(&["LIST", "    Return a list of loaded modules: there are none."]),
    }
    Ok(())
}

/// LOLWUT.
pub fn lolwut(call: &mut Call<'_, '_, '_>) -> Outcome {
    let leaf = "   _\n  / \\\n |   |\n  \\ /\n   |\n";
    let version = env!("CARGO_PKG_VERSION");
    call.reply.text(&format!("{leaf}Everleaf {version}, Redis ver. {VERSION}\n"));
    Ok(())
}

/// What the only user may do, as ACL LIST tells it.
fn rule(call: &Call<'_, '_, '_>) -> String {
    let password = call.shared.options.redis_password.is_some();
    let pass = if password { "" } else { " nopass" };
    format!("user default on{pass} ~* &* +@all")
}

/// ACL.
pub fn acl(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.args[1] {
        what if is(what, "WHOAMI") => call.reply.bulk("default"),
        what if is(what, "USERS") => {
            call.reply.array(1);
            call.reply.bulk("default");
        }
        what if is(what, "LIST") => {
            let rule = rule(call);
            call.reply.array(1);
            call.reply.bulk(rule);
        }
        what if is(what, "GETUSER") => user(call),
        what if is(what, "CAT") => return cat(call),
        what if is(what, "LOG") => match call.rest(2) {
            [how] if is(how, "RESET") => call.reply.ok(),
            _ => call.reply.array(0),
        },
        what if is(what, "SETUSER") || is(what, "DELUSER") => {
            return Err("ERR there is one user, default, whose password serve is told".into());
        }
        _ => call.help(&[
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
            "GETUSER <username>",
            "    Get the user's details; the only user is default.",
            "LIST",
            "    Show users details in config file format.",
            "USERS",
            "    List all the registered usernames.",
            "WHOAMI",
            "    Return the current connection username.",
        ]),
    }
    Ok(())
}

fn user(call: &mut Call<'_, '_, '_>) {
    if call.args[2] != b"default" {
        call.reply.null();
        return;
    }
    let open = call.shared.options.redis_password.is_none();
    let flags = ["on", "nopass"];
    let flags = flags.iter().filter(|flag| open || **flag != "nopass");
    call.reply.map(6);
    call.reply.bulk("flags");
    call.reply.set(flags.clone().count());
    flags.for_each(|flag| call.reply.bulk(flag));
    call.reply.bulk("passwords");
    call.reply.array(0);
    for (name, value) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        call.reply.bulk(name);
        call.reply.bulk(value);
    }
    call.reply.bulk("selectors");
    call.reply.array(0);
}

fn cat(call: &mut Call<'_, '_, '_>) -> Outcome {
    let Some(category) = call.args.get(2) else {
        call.reply.array(CATEGORIES.len());
        CATEGORIES.iter().for_each(|category| call.reply.bulk(category));
        return Ok(());
    };
    let Some(category) = CATEGORIES.iter().find(|known| is(category, known)) else {
        let name = category.escape_ascii();
        return Err(Failure::Text(format!("ERR Unknown category '{name}'")));
    };
    let of = call.caller.all_commands();
    let of = of.iter().filter(|command| categories(command).contains(category));
    call.reply.array(of.clone().count());
    of.for_each(|command| call.reply.bulk(&command.name));
    Ok(())
}

/// MEMORY STATS.
pub fn memory_stats(call: &mut Call<'_, '_, '_>) -> Outcome {
    let store = call.shared.data.statistics()?;
    let (used, resident) = (store.used_bytes, process::resident_bytes());
    let mut keys = 0;
    for database in 0..crate::data::DATABASES {
        keys += call.work.count_keys(database)?;
    }
    let peak = call.shared.peak_bytes.load(std::sync::atomic::Ordering::Relaxed).max(used);
    let clients = call.shared.unsent.taken() + call.shared.requests.taken();
    let numbers = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", 0),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", clients),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("overhead.total", store.dram_bytes),
        ("keys.count", keys),
        ("keys.bytes-per-key", used / keys.max(1)),
        ("dataset.bytes", used),
        ("allocator.allocated", used),
        ("allocator.resident", resident),
    ];
    call.reply.map(numbers.len() + 3);
    for (name, number) in numbers {
        call.reply.bulk(name);
        call.reply.integer(number as i64);
    }
    for (name, number) in [
        ("dataset.percentage", 100.0),
        ("peak.percentage", used as f64 / peak.max(1) as f64 * 100.0),
        ("fragmentation", resident as f64 / used.max(1) as f64),
    ] {
        call.reply.bulk(name);
        call.reply.double(number);
    }
    Ok(())
}
