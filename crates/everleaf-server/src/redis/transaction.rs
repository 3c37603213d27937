//! Transactions: MULTI, EXEC and what is about them.

use std::sync::Arc;
use std::time::Instant;

use super::call::{Blocking, Effects};
use super::failure::{BUSY, Failure, OUT_OF_MEMORY, Outcome, failed, wrong_number};
use super::names::tells_counts;
use super::queue::{Asked, Queue, Seen, Watched};
use super::session::Session;
use super::timing;
use crate::data::{Work, key_row};
use crate::resp::argument::is;
use crate::resp::reply::Reply;
use crate::shared::Subscribed;

/// Bytes of memory that an argument that waits takes beside its own.
const ARGUMENT_BYTES: usize = 32;
/// The same for a key that is watched.
const WATCHED_BYTES: usize = 96;

impl Session {
    /// What is done at once, also in a transaction; none: it is something else.
    pub(super) fn at_once(&mut self, args: &[&[u8]], out: &mut Vec<u8>) -> Option<Outcome> {
        let mut reply = Reply::to(out, self.three);
        Some(match args[0] {
            name if is(name, "MULTI") && self.queue.is_some() => {
                Err("ERR MULTI calls can not be nested".into())
            }
            name if is(name, "MULTI") => {
                self.queue = Some(Queue::default());
                reply.ok();
                Ok(())
            }
            name if is(name, "EXEC") => self.exec(out),
            name if is(name, "DISCARD") => match self.queue.take() {
                None => Err("ERR DISCARD without MULTI".into()),
                Some(_) => {
                    self.watched = Watched::default();
                    reply.ok();
                    Ok(())
                }
            },
            name if is(name, "WATCH") => self.watch(args, &mut reply),
            name if is(name, "QUIT") => {
                self.closing = true;
                reply.ok();
                Ok(())
            }
            name if is(name, "RESET") => {
                self.reset();
                reply.simple("RESET");
                Ok(())
            }
            _ => return None,
        })
    }

    /// Lets a request wait for EXEC.
    pub(super) fn enqueue(&mut self, asked: Asked, args: &[&[u8]], out: &mut Vec<u8>) -> Outcome {
        let Some(queue) = &mut self.queue else { return Ok(()) };
        queue.bytes += args.iter().map(|arg| arg.len() + ARGUMENT_BYTES).sum::<usize>();
        if queue.bytes as u64 > self.shared.options.limits.waiting_bytes() {
            *queue = Queue { refused: true, ..Queue::default() };
            return Err("ERR the transaction is too long".into());
        }
        queue.requests.push((asked, args.iter().map(|arg| arg.to_vec()).collect()));
        Reply::to(out, self.three).simple("QUEUED");
        Ok(())
    }

    /// Does what waits, or nothing; the connection has selected what it had then.
    fn exec(&mut self, out: &mut Vec<u8>) -> Outcome {
        let start = out.len();
        let before = (self.database, self.three, self.client.words(|words| words.name.clone()));
        let subscribed = self.subscribed();
        self.unsent = Some(Vec::new());
        let command = self.last_command;
        let done = match self.exec_queue(out, false) {
            Err(Failure::Undeclared) => {
                self.back_to(&before, &subscribed);
                self.unsent = Some(Vec::new());
                self.events.clear();
                #[cfg(feature = "scripts")]
                let _ = self.libraries.take();
                out.truncate(start);
                self.exec_queue(out, true)
            }
            done => done,
        };
        self.last_command = command;
        #[cfg(feature = "scripts")]
        let _ = self.libraries.take();
        let unsent = self.unsent.take().unwrap_or_default();
        let events = std::mem::take(&mut self.events);
        if done.is_err() {
            self.back_to(&before, &subscribed);
        } else {
            self.notify_of(&events);
            self.send_unsent(&unsent);
        }
        done
    }

    /// What a connection has selected, as it was.
    fn back_to(&mut self, before: &(u8, bool, Vec<u8>), subscribed: &Subscribed) {
        let (database, three, name) = before;
        (self.database, self.three) = (*database, *three);
        self.client.words(|words| words.name.clone_from(name));
        self.subscribe_to(subscribed);
        self.client.mailbox.speak(self.three);
    }

    /// E1: all is done in memory, and the replies have their room. What fails here changes nothing.
    /// E2: one batch of the store. A crash before it: nothing has happened; after it: everything.
    /// E3: the replies are sent. So what is done is replied to, whatever it takes.
    fn exec_queue(&mut self, out: &mut Vec<u8>, alone: bool) -> Outcome {
        let Some(queue) = self.queue.take() else { return Err("ERR EXEC without MULTI".into()) };
        let watched = std::mem::take(&mut self.watched);
        if queue.refused {
            let sentence = "EXECABORT Transaction discarded because of previous errors.";
            return Err(sentence.into());
        }
        let has_no_room = queue.requests.iter().any(|(asked, args)| match asked {
            Asked::Store(command) => {
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                self.has_no_room(command, &args)
            }
            Asked::Connection => false,
        });
        if has_no_room {
            return Err(Failure::Text(format!(
                "EXECABORT Transaction discarded because of: {OUT_OF_MEMORY}"
            )));
        }
        let shared = Arc::clone(&self.shared);
        let data = &shared.data;
        let now_ms = data.begin_request()?;
        let locked = queue.lock(data, self.database, &watched, (!self.leaves_long, alone));
        let Some(held) = locked else {
            if !self.leaves_long {
                return Err(Failure::Text(format!(
                    "EXECABORT Transaction discarded because of: {BUSY}"
                )));
            }
            (self.queue, self.watched) = (Some(queue), watched);
            return Err(Failure::Locked);
        };
        if queue.requests().any(|args| tells_counts(&args[0])) {
            data.count_all()?; // They were counted before, but for an error.
        }
        let mut work = Work::new(data, now_ms);
        work.by = self.client.id;
        for (row, seen) in &watched.keys {
            let gone = seen.there && work.header(row)?.is_none();
            if gone || data.version(row) != seen.version {
                work.header(row)?; // The reply waits until what has changed it is durable.
                Reply::to(out, self.three).null_array();
                return Ok(());
            }
        }
        let start = out.len();
        let end = start.saturating_add(self.whole_limit());
        Reply::to(out, self.three).array(queue.requests.len());
        let (mut logged, mut monitored, mut again) = (Vec::new(), Vec::new(), None);
        // It may be done again, and is counted once.
        let mut ended = Vec::with_capacity(queue.requests.len());
        for (asked, args) in &queue.requests {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let (before, begun, touched) = (out.len(), Instant::now(), work.touched());
            work.save();
            let found = match asked {
                Asked::Store(command) => Some(*command),
                Asked::Connection => None,
            };
            self.last_command = timing::command(found, &args);
            let reply = Reply { out, three: self.three, end };
            let done = match asked {
                Asked::Store(command) => {
                    let within = (self.database, Some(&held));
                    let alone = (None, Blocking::default());
                    let done = self.run(command, &args, &mut work, reply, alone, within);
                    let done = done.map(|left| {
                        self.unsent.get_or_insert_default().extend(left.effects.published);
                        logged.extend(left.effects.logged);
                        self.monitored = left.effects.monitored;
                        self.events.extend(left.effects.events);
                        #[cfg(feature = "scripts")]
                        if let Some(libraries) = left.effects.libraries {
                            self.libraries = Some(libraries);
                        }
                    });
                    if done.is_ok() {
                        let events = self.events(command, &args, &work, touched)?;
                        self.events.extend(events);
                    }
                    done
                }
                Asked::Connection => self.greet(&args, &mut { reply }),
            };
            match done {
                Ok(()) => {}
                Err(Failure::Store(error)) => return Err(error.into()),
                Err(failure @ (Failure::Script | Failure::Undeclared)) => {
                    again = Some(failure);
                    break;
                }
                Err(failure) => {
                    work.restore();
                    out.truncate(before);
                    failed(failure, &mut Reply::to(out, self.three));
                }
            }
            monitored.extend(self.lines_for_monitors(&args));
            ended.push((self.last_command, before..out.len(), begun.elapsed()));
            // Here, so that what has no room is not made to its end.
            self.take_room(out, start)?;
        }
        if let Some(failure) = again {
            drop(held);
            (self.queue, self.watched) = (Some(queue), watched);
            return Err(failure);
        }
        monitored.iter().for_each(|line| self.shared.monitors.tell(line));
        for (command, reply, took) in ended {
            self.last_command = command;
            self.note_error(&out[reply], true);
            self.shared.metrics.redis.add(command, took);
        }
        self.count_lookups(&work);
        work.commit()?;
        let effects = Effects {
            logged,
            #[cfg(feature = "scripts")]
            libraries: self.libraries.take(),
            ..Effects::default()
        };
        self.take_effect(&effects);
        Ok(())
    }

    fn watch(&mut self, args: &[&[u8]], reply: &mut Reply<'_>) -> Outcome {
        if self.queue.is_some() {
            return Err("ERR WATCH inside MULTI is not allowed".into());
        }
        if args.len() < 2 {
            return Err(wrong_number(args[0]));
        }
        for key in &args[1..] {
            let row = key_row(self.database, key);
            if self.watched.keys.contains_key(&row) {
                continue;
            }
            let bytes = self.watched.bytes + row.len() + WATCHED_BYTES;
            if bytes as u64 > self.shared.options.limits.waiting_bytes() {
                return Err("ERR too many keys are watched".into());
            }
            let data = &self.shared.data;
            self.watched.watching.get_or_insert_with(|| data.watching());
            let held = data.lock_rows([&row[..]], !self.leaves_long);
            let _held = held.ok_or(self.not_locked())?;
            let version = data.version(&row);
            let there = Work::new(data, data.now_ms()).header(&row)?.is_some();
            self.watched.keys.insert(row, Seen { version, there });
            self.watched.bytes = bytes;
        }
        reply.ok();
        Ok(())
    }
}
