//! Transactions: MULTI, EXEC and what is about them.

use std::sync::Arc;

use super::call::{Failure, Outcome, is, wrong_number};
use super::reply::Reply;
use super::session::{Asked, Session, failed};
use crate::data::{Work, key_row};

/// Requests of a transaction that wait for EXEC.
#[derive(Default)]
pub struct Queue {
    requests: Vec<(Asked, Vec<Vec<u8>>)>,
    pub(super) bytes: usize,
    /// A request of it was refused, so nothing of it will be done.
    pub(super) refused: bool,
}

/// A key that is watched.
pub struct Watched {
    row: Vec<u8>,
    /// The version that it had.
    version: u64,
    /// Whether it was there: one that is there no more has expired, or its database was emptied.
    there: bool,
}

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
                    self.watched.clear();
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
                let number = self.number;
                *self = Self::new(Arc::clone(&self.shared));
                self.number = number;
                reply.simple("RESET");
                Ok(())
            }
            _ => return None,
        })
    }

    /// Lets a request wait for EXEC.
    pub(super) fn enqueue(&mut self, asked: Asked, args: &[&[u8]], out: &mut Vec<u8>) -> Outcome {
        let Some(queue) = &mut self.queue else { return Ok(()) };
        queue.bytes += args.iter().map(|arg| arg.len() + 32).sum::<usize>();
        if queue.bytes as u64 > self.shared.options.limits.buffered_bytes / 16 {
            *queue = Queue { refused: true, ..Queue::default() };
            return Err("ERR the transaction is too long".into());
        }
        queue.requests.push((asked, args.iter().map(|arg| arg.to_vec()).collect()));
        Reply::to(out, self.three).simple("QUEUED");
        Ok(())
    }

    /// E1: all is done in memory, and the replies have their room. What fails here changes nothing.
    /// E2: one batch of the store. A crash before it: nothing has happened; after it: everything.
    /// E3: the replies are sent. So what is done is replied to, whatever it takes.
    fn exec(&mut self, out: &mut Vec<u8>) -> Outcome {
        let Some(queue) = self.queue.take() else { return Err("ERR EXEC without MULTI".into()) };
        let watched = std::mem::take(&mut self.watched);
        if queue.refused {
            let sentence = "EXECABORT Transaction discarded because of previous errors.";
            return Err(sentence.into());
        }
        let shared = Arc::clone(&self.shared);
        let data = &shared.data;
        let now_ms = data.begin_request()?;
        let _all = data.lock_all();
        let mut work = Work::new(data, now_ms);
        for watched in &watched {
            let gone = watched.there && work.header(&watched.row)?.is_none();
            if gone || data.version(&watched.row) != watched.version {
                Reply::to(out, self.three).null_array();
                return Ok(());
            }
        }
        let start = out.len();
        let end = start.saturating_add(self.whole_limit());
        Reply::to(out, self.three).array(queue.requests.len());
        for (asked, args) in &queue.requests {
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let before = out.len();
            work.save();
            let reply = Reply { out, three: self.three, end };
            let done = match asked {
                Asked::Store(command) => self.run(command, &args, &mut work, reply, None).map(drop),
                Asked::Connection => self.greet(&args, &mut { reply }),
            };
            match done {
                Ok(()) => {}
                Err(Failure::Store(error)) => return Err(error.into()),
                Err(failure) => {
                    work.restore();
                    out.truncate(before);
                    failed(failure, &mut Reply::to(out, self.three));
                }
            }
            // Here, so that what has no room is not made to its end.
            self.take_room(out.len(), start)?;
        }
        Ok(work.commit()?)
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
            let data = &self.shared.data;
            // The version first: what changes in between makes another one.
            let version = data.version(&row);
            let there = Work::new(data, data.now_ms()).header(&row)?.is_some();
            self.watched.push(Watched { row, version, there });
        }
        reply.ok();
        Ok(())
    }
}
