//! One command at work for a connection, and what it may ask of that.

use std::sync::Arc;

use super::call::{Blocking, Call, Caller, Effects, Wait, Within};
use super::command::{Command, Known};
use super::failure::Outcome;
use super::long::More;
use super::session::Session;
use super::table::{all_commands, find, run_of};
use crate::data::{Held, Work};
use crate::resp::reply::Reply;
#[cfg(feature = "scripts")]
use crate::scripts::Libraries;
use crate::shared::Event;

/// What is left of a command.
pub(super) struct Left {
    pub(super) more: Option<More>,
    pub(super) wait: Option<Wait>,
    pub(super) effects: Effects,
}

impl Session {
    /// The command of a name, in any case.
    pub(super) fn command_of(&self, name: &[u8]) -> Option<&'static Command> {
        let is_there =
            |command: &&Command| !command.is_of_cluster() || self.shared.options.look.is_some();
        find(name).filter(is_there)
    }

    /// Runs a command; what is left of its reply for other parts, if it may have any, or what it
    /// waits for.
    pub(super) fn run<'d>(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        work: &mut Work<'d>,
        reply: Reply<'_>,
        (part_bytes, blocking): (Option<usize>, Blocking<'_>),
        (database, held): (u8, Option<&Held<'d>>),
    ) -> Outcome<Left> {
        self.remember_keys(command, args);
        let shared = &*self.shared;
        let mut call = Call {
            work,
            args,
            reply,
            database,
            shared,
            part_bytes,
            more: None,
            blocking,
            caller: self,
            held,
            effects: Effects::default(),
        };
        let done = run_of(command)(&mut call);
        let Call { work, more, blocking, effects, .. } = call;
        // Of one that fails too, or they would be counted as those of the next one.
        work.end_lookups(!command.writes);
        done.map(|()| Left { more, wait: blocking.wait, effects })
    }

    /// Counts the keys that were looked for, once it is known that this has counted.
    pub(super) fn count_lookups(&self, work: &Work<'_>) {
        let (hits, misses) = work.lookups();
        self.shared.counters.keyspace_hits.add(hits);
        self.shared.counters.keyspace_misses.add(misses);
    }
}

impl Caller for Session {
    fn leaves_long(&self) -> bool {
        self.leaves_long
    }

    fn weight(&self, database: u8, args: &[&[u8]]) -> u64 {
        self.weight_of(database, args)
    }

    fn find(&self, name: &[u8]) -> Option<&'static Command> {
        self.command_of(name)
    }

    fn all_commands(&self) -> Vec<Known> {
        let mut all = all_commands();
        let is_alone = self.shared.options.look.is_none();
        all.retain(|known| {
            !is_alone || !find(known.name.as_bytes()).is_some_and(Command::is_of_cluster)
        });
        all
    }

    fn run_within(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        work: &mut Work<'_>,
        reply: Reply<'_>,
        within: Within<'_>,
    ) -> Outcome<Vec<Event>> {
        let (whole, touched) = ((None, Blocking::default()), work.touched());
        if !command.writes {
            self.remember(within.declared);
        }
        self.run(command, args, work, reply, whole, (within.database, None))?;
        self.events_of(command, args, work, (within.database, within.mark, touched))
    }

    fn monitored(&self, args: &[&[u8]], database: u8) -> Option<String> {
        self.monitored_within(args, database)
    }

    #[cfg(feature = "scripts")]
    fn libraries(&self) -> Option<&Arc<Libraries>> {
        self.libraries.as_ref()
    }

    fn publish_later(&self, message: [&[u8]; 2]) -> (usize, Vec<Arc<[u8]>>) {
        self.shared.channels.publish(message, self.subscriber.as_ref(), false)
    }
}
