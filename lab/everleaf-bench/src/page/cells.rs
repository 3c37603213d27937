//! Cells of tables, and points of series.

use super::Table;
use crate::figure::Series;

/// Cells of these words.
pub fn strings(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Values by engine and column, in the order in which they come.
pub fn by_engine_and<R>(
    rows: &[R],
    caption: &str,
    key: impl Fn(&R) -> (String, String),
    cell: impl Fn(&R) -> String,
) -> Table {
    let mut table = vec![vec!["engine".to_owned()]];
    for row in rows {
        let (engine, column) = key(row);
        if !table[0].contains(&column) {
            table[0].push(column);
        }
        match table[1..].iter_mut().find(|cells| cells[0] == engine) {
            Some(cells) => cells.push(cell(row)),
            None => table.push(vec![engine, cell(row)]),
        }
    }
    Table { caption: caption.into(), rows: table }
}

/// A point more of a series, which begins with its first.
pub fn add_point(all: &mut Vec<Series>, name: &str, point: [f64; 2]) {
    match all.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.push(point),
        None => all.push(Series { name: name.into(), from_paper: false, points: vec![point] }),
    }
}
