//! What follows from the measurements, in sentences. No number stands here.

use super::{Group, Section};
use crate::figure::{Claim, Panel, Series, number};
use crate::{Comparison, Phase, Subject};

/// A use, what is best for it here, and what people have for it now.
pub struct Use {
    pub what: String,
    /// The engine and its value.
    pub ours: String,
    pub other: String,
    /// How the two compare.
    pub ratio: String,
    /// How many keys and threads that was measured with.
    pub at: String,
}

/// How close to the paper's value is called close.
const CLOSE: f64 = 1.5;

/// A number of this size, not to the last digit.
pub fn about(value: f64) -> String {
    let unit = 10f64.powf(value.max(1.0).log10().floor() - 1.0);
    number((value / unit).round() * unit)
}

/// Whether it is an engine that keeps what is written.
fn is_ours(name: &str) -> bool {
    let subject = name.parse::<Subject>();
    subject.is_ok_and(|of| !of.is_volatile() && !matches!(of, Subject::Peer(_)))
}

/// The fastest here, and the fastest of the others; of those that persist, if there are any.
fn fastest(rows: &[Comparison], phase: Phase) -> Option<[&Comparison; 2]> {
    let most = |keep: &dyn Fn(&Comparison) -> bool| {
        let rows = rows.iter().filter(|row| row.phase == phase && keep(row));
        rows.max_by(|a, b| a.median_ops_per_second.total_cmp(&b.median_ops_per_second))
    };
    let persistent = most(&|row| !is_ours(&row.engine) && row.durability != "none");
    let other = persistent.or_else(|| most(&|row| !is_ours(&row.engine)))?;
    Some([most(&|row| is_ours(&row.engine))?, other])
}

/// Whether it is a ratio of two speeds that were measured.
pub fn is_ratio(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Whether its writes are durable at the ends of epochs only.
fn by_epochs(engine: &str) -> bool {
    engine.parse().is_ok_and(Subject::has_epochs)
}

/// The engines that are best for some phases, and the size they were measured with.
pub fn uses(rows: &[Comparison], phases: &[(Phase, &str)], at: &str) -> Vec<Use> {
    let rate = |row: &Comparison| {
        let durable = match row.durability.as_str() {
            "none" => " (keeps nothing)",
            _ if by_epochs(&row.engine) => " (durable by epochs)",
            _ => "",
        };
        format!("{}{durable}: {}/s", row.engine, number(row.median_ops_per_second))
    };
    let of_phase = |(phase, what): &(Phase, &str)| {
        let [ours, other] = fastest(rows, *phase)?;
        let times = ours.median_ops_per_second / other.median_ops_per_second;
        is_ratio(times).then(|| Use {
            what: (*what).into(),
            ours: rate(ours),
            other: rate(other),
            ratio: format!("{} times as fast", number(times)),
            at: at.into(),
        })
    };
    phases.iter().filter_map(of_phase).collect()
}

/// The geometric mean of an engine's ratios to the first, of single operations, if there are any.
pub fn overall(rows: &[Comparison], engine: &str) -> Option<f64> {
    let of_words = [Phase::Insert, Phase::Find, Phase::Update, Phase::Delete];
    let rows = rows.iter().filter(|row| row.engine == engine && of_words.contains(&row.phase));
    let ratios = rows.map(|row| row.ratio).filter(|ratio| is_ratio(*ratio));
    let logarithms: Vec<f64> = ratios.map(f64::ln).collect();
    let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
    (!logarithms.is_empty()).then(|| mean.exp())
}

/// The engine that is best overall beside the first, `other`; two, if writes of the best are
/// durable later than others.
pub fn best(rows: &[Comparison], other: &str) -> Option<String> {
    let most = |keep: &dyn Fn(&str) -> bool| {
        let names = rows.iter().map(|row| row.engine.as_str()).filter(|name| keep(name));
        let means = names.filter_map(|engine| Some((engine, overall(rows, engine)?)));
        means.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (strict, strict_mean) = most(&|name| is_ours(name) && !by_epochs(name))?;
    let (any, mean) = most(&is_ours)?;
    let told = format!("{strict} is best, with {} times the speed of {other}", number(strict_mean));
    Some(match any == strict {
        true => told,
        false => format!("{told}; with writes durable by epochs {any}, {} times", number(mean)),
    })
}

/// Where a curve of ratios over sizes passes 1 on its way up, for good.
fn turn(points: &[[f64; 2]]) -> Option<f64> {
    let passes = |pair: &&[[f64; 2]]| pair[0][1] < 1.0 && pair[1][1] >= 1.0;
    let pair = points.windows(2).rfind(passes).filter(|_| points[points.len() - 1][1] >= 1.0)?;
    let [[from, low], [to, high]] = [pair[0], pair[1]];
    Some(from * (to / from).powf(low.ln() / (low / high).ln()))
}

/// How the ratio of an engine to BTreeMap changes with the size. Names of series are those of the
/// engine and of a phase.
pub fn by_size(engine: &str, all: &[Series]) -> Option<String> {
    let curve = |phase: Phase| all.iter().find(|of| of.name == format!("{engine} {phase}"));
    let finds = &curve(Phase::Find)?.points;
    let [[least, low], [most, high]] = [*finds.first()?, *finds.last()?];
    let ahead = |(phase, what): (Phase, &str)| {
        let points = &curve(phase)?.points;
        let is_ahead = |at: &[f64; 2]| at[1] >= 1.0;
        Some(match turn(points) {
            Some(keys) => format!("{what} from about {} keys on", about(keys)),
            None if points.iter().all(is_ahead) => format!("{what} at every size"),
            None if points.iter().any(is_ahead) => {
                format!("{what} at some sizes, not at {}", number(most))
            }
            None => format!("{what} at no size up to {}", number(most)),
        })
    };
    let named = [(Phase::Insert, "new keys"), (Phase::Find, "lookups"), (Phase::Scan, "scans")];
    Some(format!(
        "Ratios change with the size: beside BTreeMap, {engine} does {} times the lookups \
        with {} keys and {} times with {}. It is ahead in {}",
        number(low),
        number(least),
        number(high),
        number(most),
        named.into_iter().filter_map(ahead).collect::<Vec<_>>().join(", in ")
    ))
}

/// The values that were measured at a place, the least first.
fn at_place(panel: &Panel, place: f64) -> Vec<(f64, &str)> {
    let value = |series: &Series| series.points.iter().find(|at| at[0] == place).map(|at| at[1]);
    let measured = panel.series.iter().filter(|series| !series.from_paper);
    let mut all: Vec<_> = measured.filter_map(|of| Some((value(of)?, of.name.as_str()))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// What there is to see in a plot: the highest bars, or the highest curve where most of them end.
pub fn seen(panel: &Panel) -> String {
    let measured = panel.series.iter().filter(|series| !series.from_paper);
    let mut places: Vec<f64> = measured.flat_map(|of| &of.points).map(|at| at[0]).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if panel.places.is_none() {
        let compared = places.iter().rfind(|at| at_place(panel, **at).len() > 1);
        places = compared.or(places.last()).copied().into_iter().collect();
    }
    let told = |place: &f64| {
        let name = match &panel.places {
            Some(names) => names.get(*place as usize)?.clone(),
            None => format!("at {} {}", panel.x_label, number(*place)),
        };
        Some(format!("{name}: {}", highest(&at_place(panel, *place))?))
    };
    let told = sentence(&places.iter().filter_map(told).collect::<Vec<_>>().join("; "));
    let paper = match panel.series.iter().any(|series| series.from_paper) {
        true if panel.places.is_some() => " Hollow bars are the paper's.",
        true => " Lines without points are the paper's.",
        false => "",
    };
    (told + paper).trim_start().to_owned()
}

/// The highest of values, of which the least is the first, and how far it is above that.
fn highest(all: &[(f64, &str)]) -> Option<String> {
    let [(low, lowest), (high, highest)] = [*all.first()?, *all.last()?];
    let [least, most] = [low, high].map(number);
    Some(match all.len() {
        1 => format!("{highest} {most}"),
        _ if least == most => format!("all the same ({most})"),
        _ if low > 0.0 => {
            format!("highest {highest} ({most}), {} times {lowest} ({least})", number(high / low))
        }
        _ => format!("highest {highest} ({most}), lowest {lowest} ({least})"),
    })
}

/// How near to its paper a value is; 1 is within what the paper prints.
fn distance(claim: &Claim) -> Option<f64> {
    let ours = claim.ours?;
    let to = claim.paper_to.unwrap_or(claim.paper);
    let near = ours.clamp(claim.paper.min(to), claim.paper.max(to));
    let factor = if ours == near { 1.0 } else { (ours / near).max(near / ours) };
    Some(if factor > 0.0 { factor } else { f64::INFINITY })
}

/// How many of the papers' numbers were met.
pub fn of_papers<'c>(claims: impl Iterator<Item = &'c Claim>) -> Option<String> {
    let distances: Vec<Option<f64>> = claims.map(distance).collect();
    let measured: Vec<f64> = distances.iter().copied().flatten().collect();
    let close = measured.iter().filter(|factor| **factor <= CLOSE).count();
    (!distances.is_empty()).then(|| {
        format!(
            "Rows that stand beside a number of a paper: {}; measured here: {}; of these within a \
            factor of {CLOSE}: {close}.",
            distances.len(),
            measured.len()
        )
    })
}

/// A reason without the place on an axis that it holds for.
fn everywhere(reason: &str) -> &str {
    let of_place = ["at ", "with "].iter().any(|word| reason.starts_with(word));
    reason.split_once(": ").filter(|_| of_place).map_or(reason, |(_, reason)| reason)
}

/// What is not shown, or not everywhere, by reason, each reason once.
pub fn left_out(sections: &[Section]) -> Vec<(String, String)> {
    let mut reasons: Vec<(String, String)> = Vec::new();
    for section in sections {
        let title = match section.group {
            Group::Papers => section.title.split(':').next().unwrap_or_default(),
            _ => &section.title,
        };
        for out in &section.left_out {
            let (what, why) = (format!("{title}, {}", out.engine), everywhere(&out.reason));
            let what = what.trim_end_matches(", ");
            match reasons.iter_mut().find(|(_, reason)| reason == why) {
                Some((all, _)) if all.split("; ").any(|one| one == what) => {}
                Some((all, _)) => *all += &format!("; {what}"),
                None => reasons.push((what.to_owned(), why.to_owned())),
            }
        }
    }
    reasons
}

/// It begins with a capital, or with the name of an engine, and ends with a stop.
pub fn sentence(text: &str) -> String {
    let text = text.trim();
    let stop = if text.is_empty() || text.ends_with(['.', '!', '?']) { "" } else { "." };
    let first = text.split([' ', ',', ':']).next().unwrap_or_default();
    let begins = match first.parse::<Subject>() {
        Ok(_) => first.to_owned(),
        Err(_) => first
            .chars()
            .take(1)
            .flat_map(char::to_uppercase)
            .chain(first.chars().skip(1))
            .collect(),
    };
    format!("{begins}{}{stop}", &text[first.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::Contention;
    use crate::figure::LeftOut;

    #[test]
    fn a_ratio_turns_where_it_passes_one_for_good() {
        let turned = turn(&[[1e3, 2.0], [1e4, 0.5], [1e6, 2.0]]).unwrap();
        assert!((turned / 1e5 - 1.0).abs() < 1e-9, "{turned}");
        assert_eq!(turn(&[[1e3, 0.5], [1e4, 2.0], [1e5, 0.9]]), None);
        assert_eq!((turn(&[[1e3, 1.5], [1e4, 2.0]]), turn(&[])), (None, None));
        assert_eq!(about(187_654.0), "190,000");
    }

    #[test]
    fn a_curve_that_ends_below_one_says_whether_it_was_above() {
        let told = |ratios: [f64; 3]| {
            let points = [1e3, 1e4, 1e5].into_iter().zip(ratios).map(|(keys, of)| [keys, of]);
            let name = format!("fptree {}", Phase::Find);
            let curve = Series { name, from_paper: false, points: points.collect() };
            by_size("fptree", &[curve]).unwrap()
        };
        for (ratios, ahead) in [
            ([2.0, 1.5, 0.9], "lookups at some sizes, not at 100,000"),
            ([0.5, 2.0, 0.9], "lookups at some sizes, not at 100,000"),
            ([0.5, 0.8, 0.9], "lookups at no size up to 100,000"),
            ([2.0, 1.5, 1.0], "lookups at every size"),
            ([2.0, 0.1, 10.0], "lookups from about 32,000 keys on"),
        ] {
            let told = told(ratios);
            assert!(told.ends_with(&format!("It is ahead in {ahead}")), "{ratios:?}: {told}");
        }
    }

    fn row(engine: &str, durability: &str, rate: f64, ratio: f64) -> Comparison {
        Comparison {
            engine: engine.into(),
            phase: Phase::Find,
            keys: 1,
            threads: 1,
            rounds: 1,
            turns: 1,
            median_ops_per_second: rate,
            min_ops_per_second: rate,
            max_ops_per_second: rate,
            ratio,
            ratio_min: ratio,
            ratio_q1: ratio,
            ratio_q3: ratio,
            ratio_max: ratio,
            ratio_to_find: None,
            ratio_to_find_min: None,
            ratio_to_find_max: None,
            value_bytes: 8,
            durability: durability.into(),
            contention: Contention::default(),
            nodes_logged: None,
            log: None,
        }
    }

    #[test]
    fn ratios_that_were_not_measured_are_left_out() {
        let rows = [
            row("btreemap", "none", 10.0, 1.0),
            row("nvtree", "power-fail", 40.0, f64::NAN),
            row("fptree", "power-fail", 20.0, 2.0),
        ];
        assert_eq!(overall(&rows, "fptree"), Some(2.0));
        assert_eq!((overall(&rows, "nvtree"), overall(&[], "fptree")), (None, None));
        assert_eq!(best(&rows, "x").unwrap(), "fptree is best, with 2 times the speed of x");
        assert_eq!((best(&rows[..2], "x"), best(&[], "x")), (None, None));
        let other = "btreemap (keeps nothing): 10/s";
        let named = [(Phase::Find, "lookups")];
        let of = |rows: &[Comparison]| {
            uses(rows, &named, "").into_iter().map(|of| (of.ratio, of.other)).collect::<Vec<_>>()
        };
        assert_eq!(of(&rows), [("4 times as fast".to_owned(), other.to_owned())]);
        let nothing = [row("btreemap", "none", 0.0, 1.0), rows[1].clone()];
        assert_eq!((of(&nothing), of(&[])), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_reason_is_said_once_for_all_that_it_leaves_out() {
        let out =
            |engine: &str, reason: &str| LeftOut { engine: engine.into(), reason: reason.into() };
        let section = |title: &str, left_out| Section {
            group: Group::Papers,
            title: title.into(),
            left_out,
            ..Section::default()
        };
        let sections = [
            section("f-1: a title", vec![out("a", "too large"), out("b", "too large")]),
            section("f-2: another", vec![out("", "slow"), out("a", "at 3 keys: too large")]),
        ];
        let expected = [("f-1, a; f-1, b; f-2, a", "too large"), ("f-2", "slow")];
        assert_eq!(left_out(&sections), expected.map(|(what, why)| (what.into(), why.into())));
    }

    #[test]
    fn sentences_begin_with_capitals_and_end_with_stops() {
        for (text, told) in [
            ("keys have 31 bits", "Keys have 31 bits."),
            ("fptree, the tree", "fptree, the tree."),
            ("Is it?", "Is it?"),
            ("", ""),
        ] {
            assert_eq!(sentence(text), told);
        }
    }

    #[test]
    fn a_plot_says_what_there_is_to_see_in_it() {
        let series = |name: &str, from_paper, last| Series {
            name: name.into(),
            from_paper,
            points: vec![[1.0, 5.0], [2000.0, last]],
        };
        let panel = Panel {
            title: String::new(),
            x_label: "keys".into(),
            y_label: String::new(),
            places: None,
            logarithmic: [false; 2],
            series: vec![series("a", false, 8.0), series("b", false, 2.0), series("c", true, 1.0)],
        };
        let paper = "Lines without points are the paper's.";
        assert_eq!(seen(&panel), format!("At keys 2,000: highest a (8), 4 times b (2). {paper}"));
        for (place, told) in [
            (vec![("a", 8.0), ("b", 2.0)], "Find: highest a (8), 4 times b (2)."),
            (vec![("a", 8.0), ("b", 0.0)], "Find: highest a (8), lowest b (0)."),
            (vec![("a", 8.0), ("b", 8.0)], "Find: all the same (8)."),
            (vec![("a", 8.0)], "Find: a 8."),
            (vec![], ""),
        ] {
            let bar = |(name, value): (&str, f64)| Series {
                name: name.into(),
                from_paper: false,
                points: vec![[0.0, value]],
            };
            let series = place.into_iter().map(bar).collect();
            let places = Some(vec!["find".into()]);
            assert_eq!(seen(&Panel { places, series, ..panel.clone() }), told);
        }
        let claim = |paper_to, ours| Claim { what: String::new(), paper: 2.0, paper_to, ours };
        let claims = [claim(None, Some(4.0)), claim(Some(5.0), Some(4.0)), claim(None, None)];
        let told = "Rows that stand beside a number of a paper: 3; measured here: 2; of these \
            within a factor of 1.5: 1.";
        assert_eq!(of_papers(claims.iter()).unwrap(), told);
    }
}
