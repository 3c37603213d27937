//! Progress bars: on a terminal only.

use std::io::{IsTerminal, Read, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `bytes` of input (a spinner if their number is unknown) on stderr, or nothing if that
/// is not a terminal.
pub fn bytes_bar(bytes: Option<u64>) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match bytes {
        Some(bytes) => (ProgressBar::new(bytes), "{percent:>3}% {wide_bar} {eta} {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {msg}"),
    };
    bar.enable_steady_tick(Duration::from_millis(200));
    // A template that does not parse would only cost its looks.
    bar.with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}

/// A bar over so many steps of something on stderr, or nothing if that is not a terminal.
pub fn steps_bar(steps: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{percent:>3}% {wide_bar} {pos}, {eta} {msg}");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// A bar over entries, whose number is told later.
pub fn entries_bar() -> ProgressBar {
    steps_bar(0)
}

/// Moves it. Where nobody knows how many entries there are, as in a damaged pool, it is a number
/// that grows, and something that moves while none are found.
pub fn show_entries(bar: &ProgressBar, progress: &everleaf::Progress) {
    match progress.of_entries {
        Some(entries) => bar.set_length(entries),
        None if bar.length().is_some() => {
            bar.unset_length();
            let style = ProgressStyle::with_template("{spinner} {pos}, {elapsed}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        }
        None => {}
    }
    bar.set_position(progress.entries);
}

/// Counts what is read through it.
pub fn watch<R: Read>(bar: &ProgressBar, input: R) -> impl Read + use<R> {
    bar.wrap_read(input)
}

/// A bar over operations, whose number is set later, on stderr; nothing if that is not a terminal.
pub fn operations_bar() -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{percent:>3}% {wide_bar} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(1).with_style(style)
}
