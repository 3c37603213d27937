//! Writing the page.

use std::time::Duration;

use super::{ReportOptions, Section};
use crate::BenchError;
use crate::figure::{HAS_PLOTS, panel_svg};

/// Everything that the page looks like. Nothing is fetched from anywhere.
const STYLE: &str = "
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: #1c2126; background: #f6f7f8; }
main { max-width: 1320px; margin: 0 auto; padding: 16px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 12px 0; }
h2 { font-size: 1.25rem; margin: 0 0 8px; }
section, header { background: #fff; border: 1px solid #dfe3e6; border-radius: 8px; }
section, header { padding: 16px; margin: 0 0 16px; }
p { margin: 0 0 8px; max-width: 80ch; }
code { font: 0.85rem ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: #f0f2f4; border-radius: 6px; padding: 8px 10px; margin: 0 0 12px; }
pre { overflow-x: auto; white-space: pre-wrap; }
.wide { overflow-x: auto; margin: 0 0 12px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 3px 10px; text-align: right; white-space: nowrap; }
th, td { border-bottom: 1px solid #e8ebed; }
th { border-bottom: 2px solid #c9ced3; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); }
.plots { gap: 12px; margin: 0 0 12px; }
.plots figure { margin: 0; max-width: 640px; }
.plots svg { width: 100%; height: auto; display: block; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 0; }
dt { color: #5a6570; } dd { margin: 0; overflow-wrap: anywhere; }
nav a { display: inline-block; margin: 0 12px 4px 0; color: #0058a3; }
@media (max-width: 600px) {
  main { padding: 8px; }
  section, header { padding: 12px; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: 6px; }
}
";

/// Text as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
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
    let link = |(i, section): (usize, &Section)| {
        format!("<a href=\"#s{i}\">{}</a>\n", escaped(&section.title))
    };
    let body = sections.iter().enumerate().map(|(i, section)| of_section(i, section));
    let body = body.collect::<Result<String, BenchError>>()?;
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Everleaf, measured</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>Everleaf, measured</h1>\n\
         <header>\n<dl>\n{}<dt>measured within</dt><dd>{} s{}</dd>\n</dl>\n\
         <pre><code>{}</code></pre>\n<nav>\n{}</nav>\n</header>\n\
         {body}</main>\n</body>\n</html>\n",
        facts.iter().map(fact).collect::<String>(),
        took.as_secs(),
        if options.quick {
            ", small sizes and one round: good for a look, not for a comparison"
        } else {
            ""
        },
        escaped(&options.command()),
        sections.iter().enumerate().map(link).collect::<String>(),
    ))
}

fn of_section(number: usize, section: &Section) -> Result<String, BenchError> {
    let mut html = format!("<section id=\"s{number}\">\n<h2>{}</h2>\n", escaped(&section.title));
    section.text.iter().for_each(|text| html += &format!("<p>{}</p>\n", escaped(text)));
    html += &format!("<pre><code>{}</code></pre>\n", escaped(&section.command));
    section.tables.iter().for_each(|table| html += &of_table(table));
    if HAS_PLOTS && !section.panels.is_empty() {
        html += "<div class=\"plots\">\n";
        for panel in &section.panels {
            html += &format!("<figure>{}</figure>\n", scalable(&panel_svg(panel)?));
        }
        html += "</div>\n";
    }
    if !section.claims.is_empty() {
        let heading = ["what the paper says", "paper", "here"].map(str::to_owned).to_vec();
        let row = |claim: &crate::figure::Claim| {
            vec![claim.what.clone(), claim.paper_text(), claim.ours_text()]
        };
        html += &of_table(
            &std::iter::once(heading).chain(section.claims.iter().map(row)).collect::<Vec<_>>(),
        );
    }
    Ok(html + "</section>\n")
}

fn of_table(rows: &[Vec<String>]) -> String {
    let row = |(i, cells): (usize, &Vec<String>)| {
        let tag = if i == 0 { "th" } else { "td" };
        let cells: String =
            cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    format!(
        "<div class=\"wide\"><table>\n{}</table></div>\n",
        rows.iter().enumerate().map(row).collect::<String>()
    )
}

/// A drawing whose size is that of its place: without the width and height that it was drawn with.
fn scalable(svg: &str) -> String {
    let (head, rest) = svg.split_once('>').unwrap_or((svg, ""));
    let kept = |word: &&str| !word.starts_with("width=") && !word.starts_with("height=");
    let head: Vec<&str> = head.split(' ').filter(kept).collect();
    format!("{}>{rest}", head.join(" "))
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
        let section = Section {
            title: "A < B".into(),
            text: vec!["words & more".into()],
            command: "everleaf-lab bench \"x\"".into(),
            tables: vec![vec![
                vec!["engine".into(), "ops/s".into()],
                vec!["lmdb".into(), "7".into()],
            ]],
            panels: vec![panel],
            claims: vec![Claim { what: "twice".into(), paper: 2.0, paper_to: None, ours: None }],
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
            "words &amp; more",
            "<td>lmdb</td><td>7</td>",
            "<td>twice</td><td>2</td><td>-</td>",
        ] {
            assert!(page.contains(words), "{words} is not in {page}");
        }
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
    }
}
