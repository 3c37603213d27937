//! Writing the page.

use std::time::Duration;

use super::verdict::{left_out, of_papers, seen, sentence};
use super::{Group, ReportOptions, Section, Table};
use crate::BenchError;
use crate::figure::{Claim, HAS_PLOTS, Panel, number, panel_svg};

/// Everything that the page looks like. Nothing is fetched from anywhere.
const STYLE: &str = "
:root { color-scheme: light dark; --text: #1c2126; --soft: #56616b; --page: #f4f6f7; }
:root { --card: #fff; --line: #dde2e6; --code: #eff2f4; --link: #0058a3; }
@media (prefers-color-scheme: dark) {
  :root { --text: #dfe4e8; --soft: #9aa5af; --page: #0e1114; --card: #161a1e; }
  :root { --line: #30373d; --code: #20262b; --link: #7db8f0; }
}
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; }
body { color: var(--text); background: var(--page); }
main { max-width: 1320px; margin: 0 auto; padding: 16px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 12px 0; }
h2, h3 { display: inline; margin: 0; }
h2 { font-size: 1.3rem; } h3 { font-size: 1.05rem; }
a { color: var(--link); }
summary { cursor: pointer; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.card { padding: 16px; margin: 0 0 16px; }
.card > details { border-top: 1px solid var(--line); padding: 10px 0; }
.card > summary ~ p:first-of-type { margin-top: 8px; }
p, li { margin: 0 0 8px; max-width: 80ch; overflow-wrap: anywhere; }
details > p:first-of-type { margin-top: 8px; }
code { font: 0.85rem ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: var(--code); border-radius: 6px; padding: 8px 10px; margin: 0 0 12px; }
pre { white-space: pre-wrap; }
.wide { overflow-x: auto; margin: 4px 0 14px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
caption { text-align: left; font-weight: 600; padding: 2px 0; }
caption span { position: sticky; left: 0; display: inline-block; max-width: calc(100vw - 60px); }
caption a { font-weight: 400; margin-left: 8px; }
th, td { padding: 3px 10px; text-align: right; border-bottom: 1px solid var(--line); }
td { white-space: nowrap; }
#verdict th, #verdict td { text-align: left; white-space: normal; min-width: 7.5rem; }
#verdict th:first-child { max-width: 15rem; }
td.words { white-space: normal; text-align: left; min-width: 15rem; max-width: 34rem; }
thead th { font-weight: 600; vertical-align: bottom; min-width: 3rem; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--card); }
th:first-child { font-weight: 400; max-width: 9.5rem; min-width: 5rem; overflow-wrap: break-word; }
thead th:first-child { font-weight: 600; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
.plots { gap: 16px; margin: 0 0 12px; }
figure { margin: 0; max-width: 640px; min-width: 0; }
figcaption { color: var(--soft); font-size: 0.9rem; margin: 2px 0 6px; }
svg { width: 100%; height: auto; display: block; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 8px 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
nav a { display: inline-block; margin: 0 14px 0 0; }
@media (max-width: 600px) {
  main { padding: 8px; }
  .card { padding: 12px; }
  th, td { padding: 3px 6px; }
  th:first-child, #verdict th:first-child { max-width: 7rem; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: 6px; }
}
";

/// Rows of a table that is shown at once.
const SHORT: usize = 26;
/// The figure whose values its paper does not print: they are derived from the algorithm.
const DERIVED: &str = "incll-7";
/// Letters of a cell that is not wrapped.
const LINE: usize = 24;

impl Group {
    const ALL: [Group; 4] = [Group::Engines, Group::Stores, Group::Costs, Group::Papers];

    const fn title(self) -> &'static str {
        match self {
            Group::Engines => "Engines",
            Group::Stores => "Stores",
            Group::Costs => "What operations cost (counted)",
            Group::Papers => "The papers",
        }
    }

    /// Whether it is shown at once.
    const fn is_open(self) -> bool {
        matches!(self, Group::Engines | Group::Stores)
    }
}

/// Text as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", escaped(&sentence(text)))
}

/// Something that can be folded away.
fn folded(attributes: &str, heading: &str, content: &str) -> String {
    format!("<details{attributes}><summary>{heading}</summary>\n{content}</details>\n")
}

/// The whole page.
pub fn page(
    options: &ReportOptions,
    sections: &[Section],
    facts: &[(&str, String)],
    took: Duration,
) -> Result<String, BenchError> {
    let fact = |(name, value): &(&str, String)| {
        format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(value))
    };
    let mut groups = Group::ALL.to_vec();
    groups.retain(|group| sections.iter().any(|section| section.is_shown_in(*group)));
    let link = |group: &Group| format!("<a href=\"#{group:?}\">{}</a>\n", group.title());
    let links: String = groups.iter().map(link).collect();
    let groups = groups.into_iter().map(|group| of_group(group, sections));
    let groups = groups.collect::<Result<String, BenchError>>()?;
    let facts = format!(
        "<dl>\n{}<dt>measured within</dt><dd>{} s</dd>\n</dl>\n",
        facts.iter().map(fact).collect::<String>(),
        took.as_secs()
    );
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Everleaf, measured</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>Everleaf, measured</h1>\n\
         <header class=\"card\">\n{}<pre><code>{}</code></pre>\n\
         <nav>\n{}<a href=\"#left-out\">Left out</a>\n<a href=\"#machine\">The machine</a>\n\
         </nav>\n</header>\n{groups}{}{}</main>\n</body>\n</html>\n",
        first(sections, options.quick),
        escaped(&options.command()),
        links,
        of_left_out(sections),
        folded(" open class=\"card\" id=\"machine\"", "<h2>The machine</h2>", &facts)
    ))
}

/// What everybody wants to know: what is best for what.
fn first(sections: &[Section], quick: bool) -> String {
    let sentences = sections.iter().flat_map(|section| &section.sentences);
    let mut html: String = sentences.map(|text| paragraph(text)).collect();
    let heading = ["use", "best engine", "ratio", "beside", "measured with"].map(str::to_owned);
    let mut rows = vec![heading.to_vec()];
    rows.extend(
        sections.iter().flat_map(|section| &section.uses).map(|of| {
            [&of.what, &of.ours, &of.ratio, &of.other, &of.at].map(String::clone).to_vec()
        }),
    );
    if rows.len() > 1 {
        let caption = "The best engine for each use, beside what people use now".into();
        let table = of_table("verdict", &Table { caption, rows });
        html += &format!("<div id=\"verdict\">{table}</div>");
    }
    if quick {
        html += &paragraph("Small sizes and one round: ratios may be far off");
    }
    html
}

fn of_group(group: Group, sections: &[Section]) -> Result<String, BenchError> {
    let printed = sections
        .iter()
        .filter(|section| section.group == group && section.slug() != DERIVED)
        .flat_map(|section| &section.claims);
    let mut html = of_papers(printed).map_or(String::new(), |told| paragraph(&told));
    for section in sections.iter().filter(|section| section.is_shown_in(group)) {
        html += &of_section(section)?;
    }
    let open = if group.is_open() { " open" } else { "" };
    let heading = format!("<h2>{}</h2>", group.title());
    Ok(folded(&format!("{open} class=\"card\" id=\"{group:?}\""), &heading, &html))
}

impl Section {
    /// Whether it is of the group, and shows something.
    fn is_shown_in(&self, group: Group) -> bool {
        let measured = self.claims.iter().any(|claim| claim.ours.is_some());
        self.group == group && (measured || !self.tables.is_empty() || !self.panels.is_empty())
    }

    /// A name of files.
    fn slug(&self) -> String {
        let name = self.title.split(':').next().unwrap_or_default().to_lowercase();
        name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-")
    }
}

fn of_section(section: &Section) -> Result<String, BenchError> {
    let mut html: String = section.text.iter().map(|text| paragraph(text)).collect();
    if !section.left_out.is_empty() {
        html += "<p>Something is <a href=\"#left-out\">left out</a>.</p>\n";
    }
    html += &format!("<pre><code>{}</code></pre>\n", escaped(&section.command));
    if !section.panels.is_empty() {
        html += "<div class=\"plots\">\n";
        for (place, panel) in section.panels.iter().enumerate() {
            html += &of_panel(&format!("{}-plot-{}", section.slug(), place + 1), panel)?;
        }
        html += "</div>\n";
    }
    for (place, table) in section.tables.iter().enumerate() {
        html += &of_table(&format!("{}-{}", section.slug(), place + 1), table);
    }
    html += &of_claims(section);
    let open = if section.group == Group::Papers { "" } else { " open" };
    Ok(folded(open, &format!("<h3>{}</h3>", escaped(&section.title)), &html))
}

/// A plot, what there is to see in it, and its values.
fn of_panel(name: &str, panel: &Panel) -> Result<String, BenchError> {
    let by = if panel.x_label.is_empty() { "" } else { ", by " };
    let caption = format!("{} ({}){by}{}", panel.title, panel.y_label, panel.x_label);
    let table = of_table(name, &Table { caption, rows: panel.rows() });
    let seen = format!("<figcaption>{}</figcaption>", escaped(&seen(panel)));
    Ok(if HAS_PLOTS {
        let values = folded("", "Values", &table);
        let svg = scalable(&panel_svg(panel)?, &panel.title);
        format!("<figure>{svg}{seen}{values}</figure>\n")
    } else {
        format!("<figure>{table}{seen}</figure>\n")
    })
}

/// What the paper prints beside what was measured, and what it prints besides.
fn of_claims(section: &Section) -> String {
    let [says, value, numbers] = match section.slug() == DERIVED {
        true => ["what the algorithm comes to", "by the algorithm", "The algorithm's numbers"],
        false => ["what the paper says", "paper", "The paper's numbers"],
    };
    let table = |caption: &str, claims: Vec<&Claim>| {
        let heading = [says, value, "here"].map(str::to_owned).to_vec();
        let row =
            |claim: &Claim| vec![sentence(&claim.what), claim.paper_text(), claim.ours_text()];
        let rows = std::iter::once(heading).chain(claims.into_iter().map(row)).collect();
        of_table(&format!("{}-paper", section.slug()), &Table { caption: caption.into(), rows })
    };
    let (measured, missing): (Vec<_>, Vec<_>) =
        section.claims.iter().partition(|claim| claim.ours.is_some());
    let mut html = String::new();
    if !measured.is_empty() {
        html += &table(&format!("{numbers}, and those of this run"), measured);
    }
    if !missing.is_empty() {
        let heading = format!("{numbers} that this run has nothing for: {}", missing.len());
        html += &folded("", &heading, &table("Not measured here", missing));
    }
    html
}

fn of_left_out(sections: &[Section]) -> String {
    let row = |(what, why): (String, String)| {
        format!(
            "<li>{}: {}</li>\n",
            escaped(&what),
            escaped(&format!("{}.", why.trim_end_matches('.')))
        )
    };
    let rows: String = left_out(sections).into_iter().map(row).collect();
    let list = format!("<ul>\n{rows}</ul>\n");
    folded(
        " class=\"card\" id=\"left-out\"",
        "<h2>Left out, everywhere or at some places</h2>",
        &list,
    )
}

/// A table, with its values for download.
fn of_table(name: &str, table: &Table) -> String {
    let (heading, rows) = table.rows.split_first().expect("a table has a heading");
    let column = |name: &String| match name.as_str() {
        "" => "<td></td>".to_owned(),
        name => format!("<th scope=\"col\">{}</th>", escaped(name)),
    };
    let heading: String = heading.iter().map(column).collect();
    let cell = |(i, cell): (usize, &String)| match i {
        0 => format!("<th scope=\"row\">{}</th>", escaped(cell)),
        _ if cell.len() > LINE => format!("<td class=\"words\">{}</td>", escaped(cell)),
        _ => format!("<td>{}</td>", escaped(cell)),
    };
    let row = |cells: &Vec<String>| {
        format!("<tr>{}</tr>\n", cells.iter().enumerate().map(cell).collect::<String>())
    };
    let html = format!(
        "<div class=\"wide\"><table>\n<caption><span>{} <a download=\"{name}.csv\" \
         href=\"data:text/csv;charset=utf-8,{}\">CSV</a></span></caption>\n\
         <thead>\n<tr>{heading}</tr>\n</thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
        escaped(&table.caption),
        in_address(&csv(&table.rows)),
        rows.iter().map(row).collect::<String>()
    );
    if rows.len() <= SHORT {
        return html;
    }
    folded("", &format!("{} ({} rows)", escaped(&table.caption), rows.len()), &html)
}

/// Rows as CSV, numbers without their groups.
fn csv(rows: &[Vec<String>]) -> String {
    let cell = |cell: &String| {
        let digits = cell.replace(',', "");
        if digits.parse().is_ok_and(|value| number(value) == *cell) {
            digits
        } else if cell.contains([',', '"', '\n']) {
            format!("\"{}\"", cell.replace('"', "\"\""))
        } else {
            cell.clone()
        }
    };
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n").collect()
}

/// Text within an address.
fn in_address(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() || b"-._".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// A drawing whose size is that of its place, without the width and height that it was drawn with,
/// and its name.
fn scalable(svg: &str, name: &str) -> String {
    let (head, rest) = svg.split_once('>').unwrap_or((svg, ""));
    let kept = |word: &&str| !word.starts_with("width=") && !word.starts_with("height=");
    let head: Vec<&str> = head.split(' ').filter(kept).collect();
    format!("{} role=\"img\" aria-label=\"{}\">{rest}", head.join(" "), escaped(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Claim, Panel, Series};

    #[test]
    fn a_page_has_everything_in_it_and_fetches_nothing() {
        let panel = Panel {
            title: "a plot".into(),
            x_label: "x".into(),
            y_label: "y".into(),
            places: None,
            logarithmic: [false, false],
            series: vec![Series {
                name: "s".into(),
                from_paper: false,
                points: vec![[1.0, 2.0], [2.0, 3.0]],
            }],
        };
        let rows = [["engine", "ops/s"], ["lmdb", "7,000"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec()).to_vec();
        let section = Section {
            title: "A < B".into(),
            text: vec!["words & more".into()],
            command: "everleaf-lab bench \"x\"".into(),
            tables: vec![Table { caption: "a > b".into(), rows }],
            panels: vec![panel],
            claims: vec![Claim { what: "twice".into(), paper: 2.0, paper_to: None, ours: None }],
            left_out: vec![crate::figure::LeftOut { engine: "x".into(), reason: "why".into() }],
            sentences: vec!["first of all".into()],
            ..Section::default()
        };
        let options = ReportOptions {
            quick: true,
            keys: Some(1000),
            seed: 1,
            pool: crate::Scratch::default(),
            program: None,
        };
        let page = page(
            &options,
            &[section],
            &[("processor", "fast <one>".into())],
            Duration::from_secs(5),
        )
        .unwrap();
        for words in [
            "A &lt; B",
            "<p>Words &amp; more.</p>",
            "<caption><span>a &gt; b <a download=\"a---b-1.csv\" \
            href=\"data:text/csv;charset=utf-8,engine%2Cops%2Fs%0Almdb%2C7000%0A\">CSV</a>",
            "<th scope=\"col\">engine</th><th scope=\"col\">ops/s</th></tr>\n</thead>",
            "<th scope=\"row\">lmdb</th><td>7,000</td>",
            "<th scope=\"row\">Twice.</th><td>2</td><td>-</td>",
            "<figcaption>At x 2: s 3.</figcaption>",
            "<p>First of all.</p>",
            "<li>A &lt; B, x: why.</li>",
            "prefers-color-scheme: dark",
            "<p>Small sizes and one round: ratios may be far off.</p>",
            "<a href=\"#Engines\">",
        ] {
            assert!(page.contains(words), "{words} is not in {page}");
        }
        assert!(!page.contains("#Stores"), "a link leads to nothing");
        assert!(
            page.contains("fast &lt;one&gt;")
                && page.contains("everleaf-lab bench report --quick --keys 1000")
        );
        let addresses = page.matches("http").count();
        assert_eq!(
            addresses,
            page.matches("xmlns=\"http").count(),
            "nothing is fetched: the names of SVG's elements are no addresses"
        );
        assert!(!page.contains("<script") && !page.contains("src="));
        assert_eq!(page.contains("a plot"), HAS_PLOTS);
        if !HAS_PLOTS {
            return;
        }
        let svg = &page[page.find("<svg").unwrap()..];
        let head = &svg[..svg.find('>').unwrap()];
        assert!(head.contains("viewBox=\"0 0 480 320\"") && !head.contains("width="), "{head}");
        assert!(head.ends_with("role=\"img\" aria-label=\"a plot\""), "{head}");
    }

    #[test]
    fn csv_has_numbers_without_groups_and_quotes_other_commas() {
        let row = ["1,234,567", "-7,000", "1,2", "0.50", "nan", "i,nf", "a \"b\""];
        assert_eq!(
            csv(&[row.map(str::to_owned).to_vec()]),
            "1234567,-7000,\"1,2\",0.50,nan,\"i,nf\",\"a \"\"b\"\"\"\n"
        );
    }

    #[test]
    fn derived_numbers_are_not_a_papers() {
        let section = |name: &str| Section {
            group: Group::Papers,
            title: format!("{name}: a title"),
            claims: vec![Claim { what: "x".into(), paper: 2.0, paper_to: None, ours: Some(2.0) }],
            ..Section::default()
        };
        let page = of_group(Group::Papers, &[section("incll-6"), section("incll-7")]).unwrap();
        assert!(page.contains("<p>Rows that stand beside a number of a paper: 1;"), "{page}");
        for heading in ["paper", "by the algorithm"] {
            assert_eq!(page.matches(&format!("<th scope=\"col\">{heading}</th>")).count(), 1);
        }
    }
}
