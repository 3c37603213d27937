//! What a structure of persistent memory looks like, byte by byte, for docs/format.md:
//! `persistent!` makes it from the definition.

use std::fmt::Write;

/// One field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type, as it is written in the source.
    pub kind: String,
    /// Bytes from the beginning of the structure.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
    /// What its documentation says.
    pub what: String,
}

/// A structure of persistent memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name.
    pub name: &'static str,
    /// Its size.
    pub bytes: usize,
    /// Its fields, in the order of their offsets.
    pub fields: Vec<Field>,
}

impl Layout {
    /// A table in Markdown.
    ///
    /// ```
    /// use everleaf_pmem::{PCell, persistent};
    /// persistent! {
    ///     struct Point {
    ///         /// Eastwards.
    ///         x: PCell,
    ///         y: [PCell; 7],
    ///     }
    /// }
    /// assert!(Point::layout().to_markdown().contains("| 0 | 8 | `x` | `PCell` | Eastwards. |"));
    /// ```
    pub fn to_markdown(&self) -> String {
        let mut table =
            "| offset | bytes | field | type | what |\n|---|---|---|---|---|\n".to_owned();
        for Field { name, kind, offset, bytes, what } in &self.fields {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "| {offset} | {bytes} | `{name}` | `{kind}` | {what} |");
        }
        table
    }
}
