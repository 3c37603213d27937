//! What the papers show: each of their tables, figures and printed results, and the command that
//! shows it here. The list is `data/evidence.json`, which the program includes and not this crate:
//! a change of its words compiles seconds. Drawings of layouts and algorithms are not in it, for
//! there is nothing to measure.

use serde::{Deserialize, Serialize};

use super::Claim;
use crate::Subject;

/// A table, a figure or a number of one of the papers.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// The paper, by the name of its system.
    pub paper: String,
    /// Where it stands there.
    pub place: String,
    /// What it shows.
    pub shows: String,
    /// The numbers that the paper prints. None: it has curves or bars alone, or says no number.
    pub published: Option<String>,
    /// The engines that it takes.
    #[serde(default)]
    pub engines: Vec<String>,
    /// Those of them that this build does not have.
    #[serde(skip_deserializing)]
    pub missing: Vec<String>,
    /// What shows it here.
    pub command: Option<String>,
    /// Without a command: why nothing shows it here. With one: what the command does not show.
    pub reason: Option<String>,
    /// What of a figure's claims belongs here: those that have all of these words, or others of the
    /// list. None: all that no other entry of the figure takes.
    #[serde(default, skip_serializing)]
    pub claims: Vec<Vec<String>>,
    /// What counters must come to.
    #[serde(default, skip_serializing)]
    pub due: Vec<Due>,
    /// Why ours is another value than the paper's.
    #[serde(default, skip_serializing)]
    pub differs: Option<Difference>,
}

/// What a counter must come to, by the algorithm alone; derived before it is measured.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Due {
    /// Words that the claims have which it is about.
    pub claims: Vec<String>,
    /// The least and the greatest value.
    pub band: [f64; 2],
    /// Whether they are parts of the paper's value.
    #[serde(default)]
    pub of_paper: bool,
    /// The derivation.
    pub why: String,
}

/// Why a value differs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The kind of reason.
    pub kind: Kind,
    /// The reason.
    pub why: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing to explain.
    Agrees,
    /// Fewer keys, or fewer rounds.
    Size,
    /// Processors, latencies and caches.
    Machine,
    /// An engine is made in another way than in the paper.
    Engine,
    /// The printed value does not follow from the paper's algorithm.
    Algorithm,
    /// The paper does not say what was measured.
    Unsaid,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Size, Self::Machine, Self::Engine, Self::Algorithm, Self::Unsaid, Self::Agrees];

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Kind::Agrees => "ours is the paper's, or what the algorithm comes to",
            Kind::Size => "fewer keys than in the paper: more of the tree lies in caches",
            Kind::Machine => "fewer processors, another cache, or a latency that is emulated",
            Kind::Engine => "a tree is made in another way than in the paper, mostly a faster one",
            Kind::Algorithm => "the printed value does not follow from the printed algorithm",
            Kind::Unsaid => "the paper does not say what it measured",
        }
    }
}

impl Due {
    /// Whether it is about a claim.
    pub fn is_about(&self, claim: &Claim) -> bool {
        self.claims.iter().all(|words| claim.what.contains(words))
    }

    /// The least and the greatest value of a claim.
    pub fn of(&self, claim: &Claim) -> [f64; 2] {
        self.band.map(|end| if self.of_paper { end * claim.paper } else { end })
    }
}

/// The list that is in a text, in the order of the papers and of their places.
///
/// # Panics
/// If the text is not a list: it is part of the program, and a test reads it.
///
/// # Examples
/// ```
/// use everleaf_bench::figure::evidence;
///
/// let list = evidence(include_str!("../../data/evidence.json"));
/// let of_fptree = list.into_iter().filter(|one| one.paper == "FPTree");
/// assert!(of_fptree.clone().any(|one| one.place == "Table 1"));
/// assert!(of_fptree.clone().all(|one| one.command.is_some() || one.reason.is_some()));
/// ```
pub fn evidence(text: &str) -> Vec<Evidence> {
    let mut list: Vec<Evidence> =
        serde_json::from_str(text).expect("the list is part of the program, and a test reads it");
    for one in &mut list {
        let missing = one.engines.iter().filter(|name| name.parse::<Subject>().is_err());
        one.missing = missing.cloned().collect();
    }
    list
}

/// Columns before the words of a field.
const INDENT: usize = 12;

impl Evidence {
    /// The name of the figure that shows it, if a figure does.
    pub fn figure(&self) -> Option<&str> {
        self.command.as_deref()?.strip_prefix("everleaf-lab bench figure ")?.split(' ').next()
    }

    /// Whether a claim of the figure belongs here by its words.
    pub fn takes(&self, claim: &Claim) -> bool {
        self.claims.iter().any(|words| words.iter().all(|word| claim.what.contains(word)))
    }

    /// The entry for people, in so many columns.
    pub fn text(&self, columns: usize) -> String {
        let published = self.published.as_deref().unwrap_or("prints no number");
        let missing = format!("{}: not in this build", self.missing.join(", "));
        let fields = [
            ("shows", Some(self.shows.as_str()), ""),
            ("paper", Some(published), ""),
            ("run", self.command.as_deref(), " \\"),
            ("lacks", (!self.missing.is_empty()).then_some(missing.as_str()), ""),
            (if self.command.is_some() { "but" } else { "not shown" }, self.reason.as_deref(), ""),
        ];
        let mut text = format!("{}, {}\n", self.paper, self.place);
        for (label, words, row_end) in fields {
            let Some(words) = words else { continue };
            let rows = wrapped(words, columns.saturating_sub(INDENT + row_end.len()));
            for (number, row) in rows.iter().enumerate() {
                let label = if number == 0 { label } else { "" };
                let end = if number + 1 < rows.len() { row_end } else { "" };
                text += &format!("  {label:<width$}{row}{end}\n", width = INDENT - 2);
            }
        }
        text
    }
}

/// Words in rows of at most so many columns; a longer word has a row of its own.
pub(super) fn wrapped(words: &str, columns: usize) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match rows.last_mut() {
            Some(row) if row.chars().count() + 1 + word.chars().count() <= columns => {
                row.push(' ');
                row.push_str(word);
            }
            _ => rows.push(word.to_owned()),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = include_str!("../../data/evidence.json");

    #[test]
    fn words_stay_whole_and_rows_within_their_columns() {
        assert_eq!(wrapped("a bc  def ghijk", 6), ["a bc", "def", "ghijk"]);
        assert_eq!(wrapped("abcdefgh i", 4), ["abcdefgh", "i"]);
        assert!(wrapped("", 4).is_empty());
    }

    #[test]
    fn a_long_command_goes_on_in_the_next_row_as_a_shell_takes_it() {
        let mut one = evidence(LIST).remove(0);
        one.command = Some("everleaf-lab bench figure fptree-4 --keys 1000".into());
        one.reason = None;
        let text = one.text(INDENT + 28);
        assert!(text.contains("run       everleaf-lab bench figure \\\n"), "{text}");
        assert!(text.ends_with("            fptree-4 --keys 1000\n"), "{text}");
    }
}
