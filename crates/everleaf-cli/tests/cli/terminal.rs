//! The shell on a terminal, which a pseudo-terminal stands in for.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::common::Bench;
use crate::truncation;

/// How long a step may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal with a shell at it, or another command.
struct Terminal {
    keyboard: File,
    /// What the shell sees.
    line: OwnedFd,
    screen: Arc<Mutex<Vec<u8>>>,
    shell: Child,
    /// The modes before the shell began.
    before: Termios,
}

impl Terminal {
    /// A shell of the pool `p`, at its first prompt.
    fn of(bench: &Bench) -> Self {
        let terminal = Self::running(bench, &["shell", "p", "--no-history"]);
        terminal.await_text("everleaf> ");
        terminal
    }

    /// A command, on a terminal of 40 columns.
    fn running(bench: &Bench, arguments: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let line = ioctl_tiocgptpeer(&controller, flags).unwrap();
        let before = tcgetattr(&line).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 40, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&line, size).unwrap();
        let end = || line.try_clone().unwrap();
        let mut command = bench.command(arguments);
        command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end());
        let shell = command.spawn().unwrap();
        let keyboard = File::from(controller);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut output, shown) = (keyboard.try_clone().unwrap(), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(bytes @ 1..) = output.read(&mut piece) {
                shown.lock().unwrap().extend_from_slice(&piece[..bytes]);
            }
        });
        Self { keyboard, line, screen, shell, before }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    #[track_caller]
    fn await_text(&self, text: &str) {
        let begun = Instant::now();
        while !self.shown().contains(text) {
            assert!(begun.elapsed() < PATIENCE, "`{text}` never came: {}", self.shown());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Types the keys, again and again, until the shell has ended.
    #[track_caller]
    fn end(&mut self, keys: &str) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.shell.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the shell goes on: {}", self.shown());
            self.type_in(keys);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The modes are those that the terminal had before.
    #[track_caller]
    fn is_as_before(&self) {
        let (now, before) = (tcgetattr(&self.line).unwrap(), &self.before);
        assert_eq!(now.local_modes, before.local_modes);
        assert_eq!(now.input_modes, before.input_modes);
        assert_eq!(now.output_modes, before.output_modes);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A hundred puts, more than a terminal and the shell hold at once.
fn puts() -> Vec<String> {
    (0..100).map(|number| format!("put key{number} {number:0100}\r")).collect()
}

#[track_caller]
fn all_are_stored(bench: &Bench) {
    assert_eq!(bench.ok(["count", "p"]), "100\n");
    for number in [0, 1, 50, 99] {
        assert_eq!(bench.ok(["get", "p", &format!("key{number}")]), format!("{number:0100}\n"));
    }
}

#[test]
fn lines_that_are_pasted_at_once_are_all_done() {
    let bench = Bench::with_pool();
    let mut terminal = Terminal::of(&bench);
    terminal.type_in(&puts().concat());
    assert!(terminal.end("quit\r").success(), "{}", terminal.shown());
    terminal.is_as_before();
    all_are_stored(&bench);
}

#[test]
fn lines_that_a_terminal_marks_as_pasted_are_all_done() {
    let bench = Bench::with_pool();
    let mut terminal = Terminal::of(&bench);
    terminal.type_in(&format!("\x1b[200~{}\x1b[201~\r", puts().concat()));
    assert!(terminal.end("quit\r").success(), "{}", terminal.shown());
    all_are_stored(&bench);
}

#[test]
fn a_pasted_line_that_leaves_the_shell_is_the_last() {
    let bench = Bench::with_pool();
    let mut terminal = Terminal::of(&bench);
    terminal.type_in("\x1b[200~put a 1\rquit\rput b 2\x1b[201~\r");
    assert!(terminal.end("").success(), "{}", terminal.shown());
    assert_eq!(bench.ok(["scan", "p"]), "a\t1\n");
}

#[test]
fn a_terminal_does_not_obey_what_is_stored() {
    let bench = Bench::with_pool();
    bench.ok(["put", "p", "001b5b324a", "7fc285", "--hex"]); // NUL, clear screen; DEL, next line
    for (arguments, text) in [
        (&["scan", "p"][..], "\\x00\\x1b[2J\t\\x7f\\xc2\\x85\r\n"),
        (
            &["scan", "p", "--json"],
            "{\"key\":\"\\u0000\\u001b[2J\",\"value\":\"\\u007f\\u0085\"}\r\n",
        ),
    ] {
        let mut terminal = Terminal::running(&bench, arguments);
        assert!(terminal.end("").success());
        terminal.await_text(text);
    }
    assert_eq!(
        bench.run(["scan", "p"]).stdout,
        b"\x00\x1b[2J\t\x7f\xc2\x85\n",
        "a program gets it raw"
    );
    let mut terminal = Terminal::of(&bench);
    terminal.type_in("first\r");
    terminal.await_text("\\x00\\x1b[2J\t\\x7f\\xc2\\x85\r\n");
}

#[test]
fn help_breaks_no_word_on_a_narrow_terminal() {
    let bench = Bench::with_pool();
    let mut terminal = Terminal::of(&bench);
    terminal.type_in("help\r");
    terminal.await_text("\r\n    print entries whose keys begin with\r\n    P\r\nfirst");
}

#[test]
fn a_truncated_pool_leaves_the_terminal_as_it_was() {
    // While a command runs; and while a line is edited, for which keys are looked up.
    for keys in ["get leaf\r", "get l\t"] {
        let bench = truncation::mapped_pool();
        let mut terminal = Terminal::of(&bench);
        truncation::truncate(&bench);
        terminal.type_in(keys);
        assert_eq!(terminal.end("").code(), Some(1), "{}", terminal.shown());
        terminal.await_text("/p was truncated while it was open");
        terminal.is_as_before();
    }
}
