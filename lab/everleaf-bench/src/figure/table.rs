//! A figure as text.

use super::{Claim, Figure, Panel};

impl Figure {
    /// The tables for people: values of each panel, what the paper says beside what was measured,
    /// and what is missing.
    pub fn table(&self) -> String {
        let mut text = format!("{}: {}\n{}\n", self.name, self.title, self.source);
        for panel in &self.panels {
            text += &format!("\n{} ({})\n", panel.title, panel.y_label);
            let rows = panel.rows();
            let widths: Vec<usize> = (0..rows[0].len())
                .map(|i| rows.iter().map(|row| row[i].len()).max().unwrap_or(0))
                .collect();
            for row in rows {
                let cell = |(i, cell): (usize, &String)| {
                    let width = widths[i];
                    if i == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                };
                let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
                text += cells.join("  ").trim_end();
                text += "\n";
            }
        }
        if !self.claims.is_empty() {
            text += &format!("\n{:>10} {:>10}  what the paper says\n", "paper", "here");
            for claim in &self.claims {
                text += &format!(
                    "{:>10} {:>10}  {}\n",
                    claim.paper_text(),
                    claim.ours_text(),
                    claim.what
                );
            }
        }
        for left_out in &self.left_out {
            text += &format!("left out: {}, {}\n", left_out.engine, left_out.reason);
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }
}

impl Claim {
    /// The paper's.
    pub fn paper_text(&self) -> String {
        match self.paper_to {
            Some(to) => format!("{} to {}", number(self.paper), number(to)),
            None => number(self.paper),
        }
    }

    /// Everleaf, or that there is none.
    pub fn ours_text(&self) -> String {
        self.ours.map_or("-".into(), number)
    }
}

impl Panel {
    /// Its values as rows: places below each other, series side by side; the first row is the
    /// heading.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let mut places: Vec<f64> = self
            .series
            .iter()
            .flat_map(|series| series.points.iter().map(|point| point[0]))
            .collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let mut rows = vec![vec![self.x_label.clone()]];
        rows[0].extend(self.series.iter().map(|series| series.name.clone()));
        for place in places {
            let name = self.places.as_ref().and_then(|names| names.get(place as usize)).cloned();
            let mut row = vec![name.unwrap_or_else(|| number(place))];
            let value = |points: &[[f64; 2]]| {
                points
                    .iter()
                    .find(|point| point[0] == place)
                    .map_or("-".into(), |point| number(point[1]))
            };
            row.extend(self.series.iter().map(|series| value(&series.points)));
            rows.push(row);
        }
        rows
    }
}

/// Three significant digits, and no fraction of large or whole numbers, which are grouped.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5 => grouped(&format!("{value:.0}")),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// `9386677` as `9,386,677`.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if text.ends_with(|last: char| last.is_ascii_digit())
            && (digits.len() - place).is_multiple_of(3)
        {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_or_groups_of_them() {
        let texts = [9_386_677.4, 1000.0, -123_456.0, 999.6, 12.34, 0.5, 0.01, 7.0].map(number);
        assert_eq!(
            texts,
            ["9,386,677", "1,000", "-123,456", "1,000", "12.3", "0.50", "0.0100", "7"]
        );
    }
}
