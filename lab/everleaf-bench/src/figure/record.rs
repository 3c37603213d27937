//! The record of all that the papers show: their values, ours, and why they differ, as one document
//! in Markdown.

use std::collections::BTreeMap;

use super::{Claim, Due, Evidence, Figure, Kind};

/// What a command of the list gave.
#[derive(Clone, Debug)]
pub enum Shown {
    /// A figure.
    Figure(Box<Figure>),
    /// What another command printed.
    Text(String),
    /// It could not be run, and why.
    Failed(String),
}

const INTRODUCTION: &str = "\
# What the papers show, and what Everleaf shows

`everleaf-lab bench figure --all` makes this document: every table, figure and printed result of the
five papers, the value that the paper prints, ours, why they differ, and the command. Times and
ratios are those of one machine (below); counters are exact, and the same seed gives the same ones
anywhere. Where the algorithm decides a counter, *due* is the band that it must lie in, with its
derivation. Bands are derived from the algorithm and written down before measuring; where a first
derivation was wrong and a measurement has shown it, the derivation says so.
";

/// The document, of what the commands of a list of [`evidence`](super::evidence) gave, by command;
/// `facts` are those of the machine.
pub fn record(
    list: &[Evidence],
    shown: &BTreeMap<String, Shown>,
    facts: &[(&str, String)],
) -> String {
    let mut text = INTRODUCTION.to_owned() + "\n## Where it was measured\n\n";
    facts.iter().for_each(|(name, value)| text += &format!("* {name}: {value}\n"));
    text += &summary(list, shown);
    let mut paper = "";
    for one in list {
        if one.paper != paper {
            paper = &one.paper;
            text += &format!("\n## {paper}\n");
        }
        text += &entry(one, list, shown);
    }
    text
}

/// How many results differ for which kind of reason, and which.
fn summary(list: &[Evidence], shown: &BTreeMap<String, Shown>) -> String {
    let mut text =
        "\n## What differs, by kind of reason\n\n| kind | results | which |\n|---|---|---|\n"
            .to_owned();
    let mut row = |meaning: &str, of: &dyn Fn(&&Evidence) -> bool| {
        let which: Vec<String> =
            list.iter().filter(of).map(|one| format!("{} {}", one.paper, one.place)).collect();
        text += &format!("| {meaning} | {} | {} |\n", which.len(), which.join("; "));
    };
    for kind in Kind::ALL {
        row(kind.meaning(), &|one| one.differs.as_ref().is_some_and(|why| why.kind == kind));
    }
    row("a counter outside the band that is due", &|one| is_outside(one, shown));
    row("curves alone: the paper prints no number", &|one| {
        one.command.is_some() && one.differs.is_none()
    });
    row("not shown", &|one| one.command.is_none());
    text
}

/// Whether a counter of a result lies outside its band.
fn is_outside(one: &Evidence, shown: &BTreeMap<String, Shown>) -> bool {
    let Some(Shown::Figure(figure)) = one.command.as_ref().and_then(|at| shown.get(at)) else {
        return false;
    };
    let is_in = |claim: &Claim, due: &Due| {
        let [least, greatest] = due.of(claim);
        claim.ours.is_none_or(|ours| (least..=greatest).contains(&ours))
    };
    let with_due =
        |claim: &Claim| one.due.iter().find(|due| due.is_about(claim)).map(|due| is_in(claim, due));
    figure
        .claims
        .iter()
        .filter(|claim| one.takes(claim))
        .any(|claim| with_due(claim) == Some(false))
}

/// One result.
fn entry(one: &Evidence, list: &[Evidence], shown: &BTreeMap<String, Shown>) -> String {
    let published = one.published.as_deref().unwrap_or("no number");
    let mut text = format!(
        "\n### {}, {}\n\n{}\n",
        one.paper,
        one.place,
        wrapped(&format!("It shows {}. The paper prints: {published}.", one.shows))
    );
    let Some(command) = &one.command else {
        return text + "\n" + &wrapped(one.reason.as_deref().unwrap_or("Not shown.")) + "\n";
    };
    match shown.get(command) {
        Some(Shown::Figure(figure)) => text += &of_figure(one, list, figure),
        Some(Shown::Text(output)) => text += &format!("\n```text\n{}\n```\n", output.trim_end()),
        Some(Shown::Failed(why)) => {
            text += &format!("\n{}\n", wrapped(&format!("Not measured: {why}")))
        }
        None => text += "\nNot measured.\n",
    }
    let of_differing = one.differs.as_ref().map(|differs| &differs.why);
    for why in of_differing.into_iter().chain(&one.reason) {
        text += &format!("\n{}\n", wrapped(why));
    }
    let due = one.due.iter().map(|due| format!("\n{}\n", wrapped(&format!("Due: {}", due.why))));
    text += &due.collect::<String>();
    let command = match shown.get(command) {
        Some(Shown::Figure(figure)) => &figure.command,
        _ => command,
    };
    text + &format!("\n```sh\n{}\n```\n", continued(command))
}

/// The rows of a figure that belong to an entry, or its panels where the paper prints no number.
fn of_figure(one: &Evidence, list: &[Evidence], figure: &Figure) -> String {
    let others: Vec<&Evidence> =
        list.iter().filter(|other| other.command == one.command && *other != one).collect();
    let is_ours = |claim: &&Claim| match one.claims.is_empty() {
        true => !others.iter().any(|other| other.takes(claim)),
        false => one.takes(claim),
    };
    let claims: Vec<&Claim> = figure.claims.iter().filter(is_ours).collect();
    let mut text = String::new();
    if !claims.is_empty() && (one.published.is_some() || !one.due.is_empty()) {
        text += &of_claims(one, &claims);
    } else {
        figure
            .panels
            .iter()
            .for_each(|panel| text += &folded(&panel.title, &panel.y_label, &panel.rows()));
    }
    let left_out = figure.left_out.iter().map(|out| format!("{} ({})", out.engine, out.reason));
    let left_out: Vec<String> = left_out.collect();
    // It is said where the figure is shown first.
    let is_first = list.iter().find(|other| other.command == one.command) == Some(one);
    if is_first && !left_out.is_empty() {
        text += &format!("\n{}\n", wrapped(&format!("Left out: {}.", left_out.join("; "))));
    }
    if is_first && !figure.notes.is_empty() {
        text += &format!("\n{}\n", wrapped(&format!("Notes: {}.", figure.notes.join("; "))));
    }
    text
}

fn of_claims(one: &Evidence, claims: &[&Claim]) -> String {
    let with_due = !one.due.is_empty();
    let mut text = format!(
        "\n| | paper | here |{}\n|---|---|---|{}\n",
        if with_due { " due |" } else { "" },
        if with_due { "---|" } else { "" }
    );
    for claim in claims {
        // Without a printed number the claim's is what the algorithm comes to: it is the band's.
        let paper = one.published.as_ref().map_or("-".into(), |_| claim.paper_text());
        text += &format!("| {} | {paper} | {} |", claim.what, claim.ours_text());
        if with_due {
            let due = one.due.iter().find(|due| due.is_about(claim));
            text += &due.map_or(" |".into(), |due| format!(" {} |", band(due, claim)));
        }
        text += "\n";
    }
    text
}

/// A band, and whether the value lies in it.
fn band(due: &Due, claim: &Claim) -> String {
    let [least, greatest] = due.of(claim);
    let text = if least == greatest {
        super::number(least)
    } else {
        format!("{} to {}", super::number(least), super::number(greatest))
    };
    match claim.ours {
        Some(ours) if (least..=greatest).contains(&ours) => text,
        Some(_) => format!("**not** {text}"),
        None => text,
    }
}

/// A table that is opened when it is wanted.
fn folded(title: &str, unit: &str, rows: &[Vec<String>]) -> String {
    let mut text = format!("\n<details><summary>{title} ({unit})</summary>\n\n");
    for (i, cells) in rows.iter().enumerate() {
        text += &format!("| {} |\n", cells.join(" | "));
        if i == 0 {
            text += &format!("|{}\n", "---|".repeat(cells.len()));
        }
    }
    text + "\n</details>\n"
}

/// In rows of at most 100 columns, none of which begins as an item of a list does.
fn wrapped(words: &str) -> String {
    let rows = super::evidence::wrapped(words, 99).into_iter();
    let rows =
        rows.map(
            |row| if row.starts_with(['+', '-', '*', '#', '>']) { format!("\\{row}") } else { row },
        );
    rows.collect::<Vec<_>>().join("\n")
}

/// A command in such rows, as a shell takes it.
fn continued(command: &str) -> String {
    super::evidence::wrapped(command, 98).join(" \\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outside_its_band_is_told() {
        let claim = |ours| Claim { what: "flushes".into(), paper: 2.0, paper_to: None, ours };
        let due = |of_paper| Due { claims: vec![], band: [0.9, 1.5], of_paper, why: String::new() };
        assert_eq!(band(&due(true), &claim(Some(2.0))), "1.80 to 3");
        assert_eq!(band(&due(false), &claim(Some(2.0))), "**not** 0.90 to 1.50");
        assert_eq!(band(&due(true), &claim(None)), "1.80 to 3");
    }

    #[test]
    fn every_result_stands_in_it_with_its_command_or_its_reason() {
        let list = super::super::evidence(include_str!("../../data/evidence.json"));
        let text = record(&list, &BTreeMap::new(), &[("processor", "one".into())]);
        for one in &list {
            assert!(text.contains(&format!("### {}, {}\n", one.paper, one.place)));
        }
        let long = |line: &str| line.chars().count() > 100 && !line.starts_with('|');
        assert!(!text.lines().any(long), "{:?}", text.lines().find(|line| long(line)));
    }
}
