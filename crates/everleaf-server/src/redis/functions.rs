//! FUNCTION, FCALL and what is about them.
//!
//! The code of a library is a word of the store, written with what else the request writes; what
//! runs it (`scripts/library.rs`) is changed when that has counted. A transaction sees what it has
//! changed itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::call::Call;
use super::failure::{BUSY, Failure, Outcome, check_length};
use super::scripting::{SHORT, SHORT_BYTES, run};
use crate::data::{Killed, add_string};
use crate::resp::argument::is;
use crate::resp::glob;
use crate::resp::number::integer;
use crate::scripts::{Bounds, Libraries, Library, Script, Stop};
use crate::shared::Shared;

/// How long the code of libraries runs that one request loads, as with Redis that of one library.
const LOADING: Duration = Duration::from_millis(500);
/// Whose payload it is, and of which version.
const TAIL: [u8; 4] = *b"elf\x01";
const NO_FUNCTION: &str = "ERR Function not found";

/// FCALL.
pub fn fcall(call: &mut Call<'_, '_, '_>) -> Outcome {
    let function = found(call)?;
    run(call, &function, false)
}

/// FCALL_RO.
pub fn fcall_ro(call: &mut Call<'_, '_, '_>) -> Outcome {
    let function = found(call)?;
    run(call, &function, true)
}

fn found(call: &Call<'_, '_, '_>) -> Outcome<Arc<Script>> {
    let found = libraries(call).function(call.args[1]).cloned();
    let found = found.ok_or(Failure::Said(NO_FUNCTION))?;
    match integer(call.args[2]) {
        Some(_) => Ok(found),
        None => Err("ERR Bad number of keys provided".into()),
    }
}

/// The libraries that this request sees.
fn libraries(call: &Call<'_, '_, '_>) -> Arc<Libraries> {
    call.shared.data.saw_last();
    let own = call.effects.libraries.as_ref().or_else(|| call.caller.libraries());
    own.map_or_else(|| call.shared.scripts.libraries(), Arc::clone)
}

/// Libraries, their functions, and the memory of both.
pub fn counts(shared: &Shared) -> [usize; 3] {
    let libraries = shared.scripts.libraries();
    [libraries.all().len(), libraries.functions(), libraries.bytes()]
}

/// Loads the libraries that the store has. One that cannot be loaded, as it may be with another
/// version of this program, stays there, and its functions are not known.
pub fn load_all(shared: &Shared) {
    let codes = shared.data.libraries().unwrap_or_else(|error| {
        error!(%error, "the libraries of functions cannot be read");
        Vec::new()
    });
    let mut all = Libraries::default();
    for code in codes {
        let bounds = Bounds {
            until: Instant::now() + LOADING,
            is_short: false,
            memory_bytes: shared.options.limits.script_bytes,
            killed: Arc::default(),
        };
        let loaded = shared.scripts.load(&code, &bounds);
        let loaded = loaded.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        if let Err(why) = loaded.and_then(|library| all.add(Arc::new(library), false)) {
            warn!(why, "a library of functions is left out");
        }
    }
    shared.scripts.set_libraries(&Arc::new(all));
}

/// FUNCTION.
pub fn function(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.args[1] {
        what if is(what, "LOAD") => load(call),
        what if is(what, "DELETE") => delete(call),
        what if is(what, "FLUSH") => flush(call),
        what if is(what, "RESTORE") => restore(call),
        what if is(what, "LIST") => list(call),
        what if is(what, "DUMP") => {
            dump(call);
            Ok(())
        }
        what if is(what, "STATS") => {
            stats(call);
            Ok(())
        }
        what if is(what, "KILL") => kill(call),
        _ => {
            help(call);
            Ok(())
        }
    }
}

// ---- what changes them
// -------------------------------------------------------------------------------------------------

/// They are changed under all locks: with fewer of them it is asked again.
fn alone(call: &Call<'_, '_, '_>) -> Outcome {
    match call.held {
        Some(held) if held.stripes().is_none() => Ok(()),
        _ => Err(Failure::Undeclared),
    }
}

/// What all that a request loads may take together, since all locks are held meanwhile.
fn bounds(call: &Call<'_, '_, '_>) -> Bounds {
    let is_short = call.caller.leaves_long();
    let bytes = call.shared.options.limits.script_bytes;
    Bounds {
        until: Instant::now() + if is_short { SHORT } else { LOADING },
        is_short,
        memory_bytes: if is_short { SHORT_BYTES.min(bytes) } else { bytes },
        killed: Arc::default(),
    }
}

/// A library of some code, whose first run this is.
fn loaded(call: &Call<'_, '_, '_>, code: &[u8], bounds: &Bounds) -> Outcome<Arc<Library>> {
    call.check_value(code.len())?;
    match call.shared.scripts.load(code, bounds) {
        Ok(Ok(library)) => {
            check_length(library.name.as_bytes())?;
            Ok(Arc::new(library))
        }
        Ok(Err(sentence)) => Err(Failure::Text(format!("ERR {sentence}"))),
        Err(Stop::Long) => Err(Failure::Script),
        Err(_) => {
            Err("ERR Error registering functions: ERR FUNCTION LOAD timeout".into()) //
        }
    }
}

/// These are the libraries, once this has counted.
fn change(call: &mut Call<'_, '_, '_>, libraries: Libraries) -> Outcome {
    let most = call.shared.options.limits.waiting_bytes();
    if libraries.bytes() as u64 > most {
        return Err("ERR too many libraries are loaded; FUNCTION DELETE removes one".into());
    }
    call.effects.libraries = Some(Arc::new(libraries));
    Ok(())
}

fn load(call: &mut Call<'_, '_, '_>) -> Outcome {
    let [words @ .., code] = call.rest(2) else { return Ok(()) };
    if let Some(word) = words.iter().find(|word| !is(word, "REPLACE")) {
        let word = String::from_utf8_lossy(word);
        return Err(Failure::Text(format!("ERR Unknown option given: {word}")));
    }
    alone(call)?;
    let library = loaded(call, code, &bounds(call))?;
    let mut all = Libraries::clone(&libraries(call));
    all.add(Arc::clone(&library), !words.is_empty())
        .map_err(|sentence| Failure::Text(format!("ERR {sentence}")))?;
    change(call, all)?;
    call.work.set_library(&library.name, Some(code));
    call.reply.bulk(&library.name);
    Ok(())
}

fn delete(call: &mut Call<'_, '_, '_>) -> Outcome {
    alone(call)?;
    let (name, mut all) = (call.args[2], Libraries::clone(&libraries(call)));
    let Some(library) = all.get(name).cloned() else {
        return Err("ERR Library not found".into());
    };
    all.remove(name);
    change(call, all)?;
    call.work.set_library(&library.name, None);
    call.reply.ok();
    Ok(())
}

fn flush(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.rest(2) {
        [] => {}
        [how] if is(how, "ASYNC") || is(how, "SYNC") => {}
        [_] => return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into()),
        _ => return Err(wrong_words(call)),
    }
    alone(call)?;
    call.work.remove_libraries()?;
    change(call, Libraries::default())?;
    call.reply.ok();
    Ok(())
}

fn wrong_words(call: &Call<'_, '_, '_>) -> Failure {
    Failure::Text(format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try FUNCTION HELP.",
        call.args[1].escape_ascii()
    ))
}

// ---- as bytes
// -------------------------------------------------------------------------------------------------

/// The code of each, in front of it its length; "elf" and the version of this form; CRC-32C.
fn dump(call: &mut Call<'_, '_, '_>) {
    let mut payload = Vec::new();
    libraries(call).all().for_each(|library| add_string(&mut payload, &library.code));
    payload.extend_from_slice(&TAIL);
    payload.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
    call.reply.bulk(payload);
}

/// The code of libraries in a payload; none: it is none, or was changed.
fn codes(payload: &[u8]) -> Option<Vec<&[u8]>> {
    let (told, checksum) = payload.split_last_chunk::<4>()?;
    let mut rest = told.strip_suffix(&TAIL)?;
    if crc32c::crc32c(told).to_le_bytes() != *checksum {
        return None;
    }
    let mut codes = Vec::new();
    while let Some((length, body)) = rest.split_first_chunk::<4>() {
        let (code, behind) = body.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        codes.push(code);
        rest = behind;
    }
    rest.is_empty().then_some(codes)
}

fn restore(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (payload, how) = match call.rest(2) {
        [payload] => (payload, &b"APPEND"[..]),
        [payload, how] => (payload, *how),
        _ => return Err(wrong_words(call)),
    };
    let [flushes, replaces] = ["FLUSH", "REPLACE"].map(|word| is(how, word));
    if !flushes && !replaces && !is(how, "APPEND") {
        let sentence = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or \
                        REPLACE.";
        return Err(sentence.into());
    }
    let wrong = Failure::Said("ERR DUMP payload version or checksum are wrong");
    let codes = codes(payload).ok_or(wrong)?;
    alone(call)?;
    let mut all = match flushes {
        true => Libraries::default(),
        false => Libraries::clone(&libraries(call)),
    };
    let (mut restored, bounds) = (Vec::new(), bounds(call));
    for code in codes {
        let library = loaded(call, code, &bounds)?;
        if all.get(library.name.as_bytes()).is_some() && !replaces {
            return Err(Failure::Text(format!("ERR Library {} already exists", library.name)));
        }
        restored.push(Arc::clone(&library));
        all.add(library, replaces).map_err(|sentence| Failure::Text(format!("ERR {sentence}")))?;
    }
    if flushes {
        call.work.remove_libraries()?;
    }
    change(call, all)?;
    for library in restored {
        call.work.set_library(&library.name, Some(&library.code));
    }
    call.reply.ok();
    Ok(())
}

// ---- what is told of them
// -------------------------------------------------------------------------------------------------

fn list(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (mut pattern, mut with_code, mut rest) = (None, false, call.rest(2));
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        match word {
            word if is(word, "WITHCODE") && !with_code => with_code = true,
            word if is(word, "LIBRARYNAME") && pattern.is_none() => {
                let sentence = "ERR library name argument was not given";
                let (name, behind) = rest.split_first().ok_or(Failure::Said(sentence))?;
                (pattern, rest) = (Some(*name), behind);
            }
            word => {
                let word = String::from_utf8_lossy(word).replace(['\r', '\n'], " ");
                return Err(Failure::Text(format!("ERR Unknown argument {word}")));
            }
        }
    }
    let all = libraries(call);
    let is_asked = |library: &&Arc<Library>| {
        pattern.is_none_or(|pattern| {
            let lower = |name: &[u8]| name.to_ascii_lowercase();
            glob::matches(&lower(pattern), &lower(library.name.as_bytes()))
        })
    };
    let asked: Vec<_> = all.all().filter(is_asked).collect();
    let reply = &mut call.reply;
    reply.array(asked.len());
    for library in asked {
        reply.map(if with_code { 4 } else { 3 });
        reply.bulk("library_name");
        reply.bulk(&library.name);
        reply.bulk("engine");
        reply.bulk("LUA");
        reply.bulk("functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk("name");
            reply.bulk(function.script.name());
            reply.bulk("description");
            match &function.description {
                Some(text) => reply.bulk(text),
                None => reply.null(),
            }
            reply.bulk("flags");
            reply.set(function.script.flags.names().count());
            function.script.flags.names().for_each(|flag| reply.simple(flag));
        }
        if with_code {
            reply.bulk("library_code");
            reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn stats(call: &mut Call<'_, '_, '_>) {
    let (all, reply) = (libraries(call), &mut call.reply);
    reply.map(2);
    reply.bulk("running_script");
    match call.shared.data.holders.running() {
        None => reply.null(),
        Some((running, time)) => {
            reply.map(3);
            reply.bulk("name");
            reply.bulk(&running.function);
            reply.bulk("command");
            reply.array(running.words.len());
            running.words.iter().for_each(|word| reply.bulk(word));
            reply.bulk("duration_ms");
            reply.integer(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        }
    }
    reply.bulk("engines");
    reply.map(1);
    reply.bulk("LUA");
    reply.map(2);
    reply.bulk("libraries_count");
    reply.count(all.all().len());
    reply.bulk("functions_count");
    reply.count(all.functions());
}

fn kill(call: &mut Call<'_, '_, '_>) -> Outcome {
    match call.shared.data.holders.kill(true) {
        Killed::Ends => call.reply.ok(),
        Killed::None => return Err("NOTBUSY No scripts in execution right now.".into()),
        Killed::Others => return Err(BUSY.into()),
    }
    Ok(())
}

fn help(call: &mut Call<'_, '_, '_>) {
    call.help(&[
        "LOAD [REPLACE] <FUNCTION CODE>",
        "    Create a new library with the given library name and code.",
        "DELETE <LIBRARY NAME>",
        "    Delete the given library.",
        "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
        "    Return general information on all the libraries:",
        "    * Library name",
        "    * The engine used to run the Library",
        "    * Library description",
        "    * Functions list",
        "    * Library code (if WITHCODE is given)",
        "    It also possible to get only function that matches a pattern using LIBRARYNAME \
         argument.",
        "STATS",
        "    Return information about the current function running:",
        "    * Function name",
        "    * Command used to run the function",
        "    * Duration in MS that the function is running",
        "    If no function is running, return nil",
        "    In addition, returns a list of available engines.",
        "KILL",
        "    Kill the current running function.",
        "FLUSH [ASYNC|SYNC]",
        "    Delete all the libraries.",
        "    When called without the optional mode argument, the behavior is determined by the",
        "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
        "    * ASYNC: Asynchronously flush the libraries.",
        "    * SYNC: Synchronously flush the libraries.",
        "DUMP",
        "    Return a serialized payload representing the current libraries, can be restored using \
         FUNCTION RESTORE command",
        "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
        "    Restore the libraries represented by the given payload, it is possible to give a \
         restore policy to",
        "    control how to handle existing libraries (default APPEND):",
        "    * FLUSH: delete all existing libraries.",
        "    * APPEND: appends the restored libraries to the existing libraries. On collision, \
         abort.",
        "    * REPLACE: appends the restored libraries to the existing libraries, On collision, \
         replace the old",
        "      libraries with the new libraries (notice that even on this option there is a chance \
         of failure",
        "      in case of functions name collision with another library).",
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_payload_says_is_looked_at() {
        let payload = |told: &[u8]| {
            let told = [told, &TAIL].concat();
            [&told[..], &crc32c::crc32c(&told).to_le_bytes()].concat()
        };
        let mut told = Vec::new();
        add_string(&mut told, b"one");
        add_string(&mut told, b"");
        assert_eq!(codes(&payload(&told)), Some(vec![&b"one"[..], b""]));
        assert_eq!(codes(&payload(&[])), Some(Vec::new()));
        for cut in 1..told.len() {
            assert_ne!(codes(&payload(&told[..cut])), Some(vec![&b"one"[..], b""]));
        }
        for wrong in [&b""[..], b"x", &payload(&told)[1..], &[u8::MAX; 40]] {
            assert_eq!(codes(wrong), None);
        }
    }
}
