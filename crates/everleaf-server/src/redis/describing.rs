//! COMMAND: what the commands are.

use super::call::Call;
use super::command::{Command, Keys, Known, Named, Words, takes};
use super::command_groups::{categories, group};
use super::failure::{Failure, Outcome, SYNTAX};
use super::names::{full_name, subcommands_of};
use crate::resp::argument::is;
use crate::resp::glob;

/// COMMAND.
pub fn command(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.rest(1) {
        [] => {
            let all = call.caller.all_commands();
            call.reply.array(all.len());
            all.iter().for_each(|command| describe(call, command));
        }
        [what] if is(what, "COUNT") => call.reply.count(call.caller.all_commands().len()),
        [what, filter @ ..] if is(what, "LIST") => return list(call, filter),
        [what, names @ ..] if is(what, "INFO") => info(call, names),
        [what, args @ ..] if is(what, "GETKEYS") => {
            let keys = keys_of(call, args)?;
            call.reply.array(keys.len());
            keys.iter().for_each(|(key, _)| call.reply.bulk(key));
        }
        [what, args @ ..] if is(what, "GETKEYSANDFLAGS") => {
            let keys = keys_of(call, args)?;
            call.reply.array(keys.len());
            for (key, flags) in keys {
                call.reply.array(2);
                call.reply.bulk(key);
                call.reply.set(flags.len());
                flags.iter().for_each(|flag| call.reply.simple(flag));
            }
        }
        [what, names @ ..] if is(what, "DOCS") => docs(call, names),
        _ => call.help(&[
            "(no subcommand)",
            "    Return details about all commands.",
            "COUNT",
            "    Return the total number of commands in this server.",
            "DOCS [<command-name> ...]",
            "    Return the groups of commands.",
            "GETKEYS <full-command>",
            "    Return the keys from a full command.",
            "GETKEYSANDFLAGS <full-command>",
            "    Return the keys and the access flags from a full command.",
            "INFO [<command-name> ...]",
            "    Return details about multiple commands.",
            "LIST [FILTERBY (MODULE <module>|ACLCAT <category>|PATTERN <pattern>)]",
            "    Return a list of all commands in this server.",
        ]),
    }
    Ok(())
}

/// All commands, also with second words.
fn with_subcommands(call: &Call<'_, '_, '_>) -> Vec<Known> {
    let all = call.caller.all_commands().into_iter();
    all.flat_map(|command| {
        let words = subcommands_of(&command.name);
        std::iter::once(command).chain(words).collect::<Vec<_>>()
    })
    .collect()
}

fn list(call: &mut Call<'_, '_, '_>, filter: &[&[u8]]) -> Outcome {
    let mut all = with_subcommands(call);
    match filter {
        [] => {}
        [word, what, name] if is(word, "FILTERBY") => match what {
            what if is(what, "MODULE") => all.clear(),
            what if is(what, "ACLCAT") => {
                all.retain(|command| categories(command).iter().any(|category| is(name, category)))
            }
            what if is(what, "PATTERN") => {
                let pattern = name.to_ascii_lowercase();
                all.retain(|command| glob::matches(&pattern, command.name.as_bytes()));
            }
            _ => return Err(SYNTAX.into()),
        },
        _ => return Err(SYNTAX.into()),
    }
    call.reply.array(all.len());
    all.iter().for_each(|command| call.reply.bulk(&command.name));
    Ok(())
}

fn info(call: &mut Call<'_, '_, '_>, names: &[&[u8]]) {
    let all = with_subcommands(call);
    if names.is_empty() {
        let all = call.caller.all_commands();
        call.reply.array(all.len());
        all.iter().for_each(|command| describe(call, command));
        return;
    }
    call.reply.array(names.len());
    for name in names {
        match all.iter().find(|command| is(name, &command.name)) {
            Some(command) => describe(call, command),
            None => call.reply.null(),
        }
    }
}

fn docs(call: &mut Call<'_, '_, '_>, names: &[&[u8]]) {
    let mut all = with_subcommands(call);
    all.retain(|command| match names {
        [] => !command.name.contains('|'),
        names => names.iter().any(|name| is(name, &command.name)),
    });
    call.reply.map(all.len());
    for command in all {
        call.reply.bulk(&command.name);
        call.reply.map(1);
        call.reply.bulk("group");
        call.reply.bulk(group(&command.name));
    }
}

/// How a command uses a key, in the words of Redis.
type Access = &'static [&'static str];

/// How a command uses its keys: the first one, and the others.
fn access(command: &Command) -> [Access; 2] {
    const READS: Access = &["RO", "access"];
    const OVERWRITES: Access = &["OW", "update"];
    const INSERTS: Access = &["RW", "insert"];
    const TAKES: Access = &["RW", "access", "delete"];
    const REMOVES: Access = &["RM", "delete"];
    const UPDATES: Access = &["RW", "access", "update"];
    const ADDS: &[&str] =
        &["append", "hset", "linsert", "lpush", "lpushx", "rpush", "rpushx", "sadd", "zadd"];
    const SETS: &[&str] = &["mset", "msetnx", "psetex", "restore", "set", "setex", "setnx"];
    match command.name {
        _ if !command.writes => [READS, READS],
        "lmove" | "rpoplpush" | "blmove" | "brpoplpush" | "smove" => [TAKES, INSERTS],
        "del" | "unlink" => [REMOVES, REMOVES],
        "sort" => [READS, OVERWRITES],
        "bitop" => [OVERWRITES, READS],
        "copy" | "zrangestore" => {
            [if command.name == "copy" { READS } else { OVERWRITES }, OVERWRITES]
        }
        "rename" | "renamenx" => [TAKES, OVERWRITES],
        name if name.ends_with("store") => [OVERWRITES, READS],
        name if SETS.contains(&name) => [OVERWRITES, OVERWRITES],
        name if ADDS.contains(&name) => [INSERTS, INSERTS],
        name if name.contains("pop") => [TAKES, TAKES],
        _ => [UPDATES, UPDATES],
    }
}

/// The keys of a request, and how it uses each.
fn keys_of<'a>(call: &Call<'_, '_, '_>, args: &[&'a [u8]]) -> Outcome<Vec<(&'a [u8], Access)>> {
    let wrong = Failure::Said("ERR Invalid command specified");
    let Some(command) = call.caller.find(args[0]) else {
        let known = call.caller.all_commands();
        let known = known.iter().find(|command| is(args[0], &command.name)).ok_or(wrong)?;
        let sentence = "ERR The command has no key arguments";
        return match known.keys {
            Keys::None => Err(sentence.into()),
            _ => Ok(args.iter().skip(1).map(|key| (*key, &["RO"][..])).collect()),
        };
    };
    let second = ["memory|usage", "object|encoding", "object|freq", "object|idletime"];
    let long = full_name(args);
    if let Ok(name) = &long
        && (second.contains(&&name[..]) || name == "object|refcount")
    {
        return Ok(vec![(args[2], &["RO"][..])]);
    }
    let named = command.keys.of(args);
    if command.keys == Keys::None {
        return Err("ERR The command has no key arguments".into());
    }
    if !takes(command.arity, args.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let keys: Words<'a> = match named {
        Named::Keys(keys) => keys,
        // Others are found by SORT itself.
        Named::Everything if command.keys == Keys::Sort => args[1..2].into(),
        _ => return Err("ERR The command has no key arguments".into()),
    };
    let may_have_none = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"];
    if keys.is_empty() && !may_have_none.contains(&command.name) {
        return Err("ERR Invalid arguments specified for command".into());
    }
    let [first, others] = access(command);
    let with = |(at, key)| (key, if at == 0 { first } else { others });
    Ok(keys.into_iter().enumerate().map(with).collect())
}

fn describe(call: &mut Call<'_, '_, '_>, command: &Known) {
    let (first, last, step) = command.keys.positions();
    let is_moved = matches!(
        command.keys,
        Keys::TimedCounted | Keys::Counted | Keys::StoreCounted | Keys::Sort | Keys::Streams
    );
    let mut flags = Vec::new();
    match (command.writes, command.keys) {
        (true, _) => flags.push("write"),
        (false, Keys::None) => {}
        (false, _) => flags.push("readonly"),
    }
    flags.extend(is_moved.then_some("movablekeys"));
    let of = categories(command);
    flags.extend(["admin", "blocking", "pubsub"].into_iter().filter(|flag| of.contains(flag)));
    let words = subcommands_of(&command.name);
    call.reply.array(10);
    call.reply.bulk(&command.name);
    call.reply.integer(i64::from(command.arity));
    call.reply.set(flags.len());
    flags.iter().for_each(|flag| call.reply.simple(flag));
    [first, last, step].iter().for_each(|position| call.reply.integer(*position));
    call.reply.set(of.len());
    of.iter().for_each(|category| call.reply.simple(&format!("@{category}")));
    call.reply.array(0);
    call.reply.array(0);
    call.reply.array(words.len());
    words.iter().for_each(|word| describe(call, word));
}
