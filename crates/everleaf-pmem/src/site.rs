//! Names of barriers, and the lists of them, which follow from the code.

use std::fmt;
use std::path::Path;

/// The name of one barrier (a flush, a fence, an `order`) in the code, such as
/// `fptree.insert.P1.entry`. Each barrier has a name of its own, so that it can be counted, and
/// suppressed by the explorer to prove that it is needed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(&'static str);

impl Site {
    /// Use [`site!`](crate::site!).
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The name, dots between its parts.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Names a barrier: `media.fence(site!("fptree.insert.P1.fence"))`.
#[macro_export]
macro_rules! site {
    ($name:literal) => {
        const { $crate::Site::new($name) }
    };
}

/// Every barrier of the given files, in the order of the code: a `&'static [Site]`. The files are
/// named as in `include_str!`, relative to the file that this stands in.
///
/// A barrier is declared where it stands, by [`site!`](crate::site!), and nowhere else. A name that
/// stands twice in the files is an error of the compiler, whose message is that name. Comments are
/// skipped, and so is what follows `mod tests {`. That no file is missing in the list is for a test
/// to assert, by [`undeclared_sites`].
///
/// # Examples
/// ```ignore
/// pub const SITES: &[Site] = declared_sites!["insert.rs", "split.rs"];
/// ```
#[macro_export]
macro_rules! declared_sites {
    ($($file:literal),* $(,)?) => {{
        const SOURCES: &[&str] = &[$(include_str!($file)),*];
        const SITES: [$crate::Site; $crate::count_sites(SOURCES)] = $crate::find_sites(SOURCES);
        &SITES
    }};
}

/// How many barriers stand in the texts of some files; for
/// [`declared_sites!`](crate::declared_sites!).
#[doc(hidden)]
pub const fn count_sites(sources: &[&str]) -> usize {
    let (mut count, mut i) = (0, 0);
    while i < sources.len() {
        let mut rest = sources[i];
        while let Some((_, behind)) = next_site(rest) {
            (count, rest) = (count + 1, behind);
        }
        i += 1;
    }
    count
}

/// The barriers themselves; for [`declared_sites!`](crate::declared_sites!).
///
/// # Panics
/// With the name of a barrier that stands twice; with another number of them than `N`.
#[doc(hidden)]
pub const fn find_sites<const N: usize>(sources: &'static [&'static str]) -> [Site; N] {
    let mut sites = [Site(""); N];
    let (mut count, mut i) = (0, 0);
    while i < sources.len() {
        let mut rest = sources[i];
        while let Some((name, behind)) = next_site(rest) {
            let mut earlier = 0;
            while earlier < count {
                if is_same(sites[earlier].0.as_bytes(), name.as_bytes()) {
                    panic!("{}", name); // This barrier's name stands twice in the code.
                }
                earlier += 1;
            }
            sites[count] = Site(name);
            (count, rest) = (count + 1, behind);
        }
        i += 1;
    }
    assert!(count == N);
    sites
}

/// The name of the first barrier in a text, and the text behind it.
const fn next_site(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'/' && stands_at(bytes, at, b"//") {
            while at < bytes.len() && bytes[at] != b'\n' {
                at += 1;
            }
        } else if bytes[at] == b'm' && stands_at(bytes, at, b"mod tests {") {
            return None;
        } else if bytes[at] == b's' && is_word_begin(bytes, at) && stands_at(bytes, at, b"site!(") {
            let mut begin = at + b"site!(".len();
            while begin < bytes.len() && bytes[begin].is_ascii_whitespace() {
                begin += 1;
            }
            if begin < bytes.len() && bytes[begin] == b'"' {
                let mut end = begin + 1;
                while bytes[end] != b'"' {
                    end += 1;
                }
                let (before, behind) = text.split_at(end);
                return Some((before.split_at(begin + 1).1, behind));
            }
            at = begin;
        } else {
            at += 1;
        }
    }
    None
}

const fn stands_at(bytes: &[u8], at: usize, wanted: &[u8]) -> bool {
    let (_, rest) = bytes.split_at(at);
    rest.len() >= wanted.len() && is_same(rest.split_at(wanted.len()).0, wanted)
}

/// Whether what stands at `at` is no end of a longer word.
const fn is_word_begin(bytes: &[u8], at: usize) -> bool {
    at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut i = 0;
    while i < one.len() && i < other.len() && one[i] == other[i] {
        i += 1;
    }
    i == one.len() && i == other.len()
}

/// The barriers of a folder's source files that stand in none of the lists, and those whose name
/// stands in two places of the folder: for the test that no file was forgotten in a
/// [`declared_sites!`](crate::declared_sites!). Files and folders called `tests` are skipped.
///
/// # Errors
/// What reading the files meets.
pub fn undeclared_sites(folder: &Path, lists: &[&[Site]]) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    collect_sites(folder, &mut found)?;
    found.sort_unstable();
    let mut wrong: Vec<String> = found
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .map(|pair| format!("{} stands twice", pair[0]))
        .collect();
    let is_listed = |name: &String| lists.iter().any(|list| list.iter().any(|site| site.0 == name));
    wrong.extend(
        found.iter().filter(|name| !is_listed(name)).map(|name| format!("{name} is in no list")),
    );
    Ok(wrong)
}

fn collect_sites(folder: &Path, found: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            collect_sites(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            let mut rest = text.as_str();
            while let Some((name, behind)) = next_site(rest) {
                found.push(name.to_owned());
                rest = behind;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        //! media.fence(site!("in.a.comment"));
        media.flush(site!("a.P1.entry"), &cell); // site!("also.in.a.comment")
        media.fence(prerequisite!("no.site"));
        media.fence(site!(
            "a.P1.fence"
        ));
        const fn of(site!) {}
        mod tests {
            site!("in.a.test")
        }
    "#;

    #[test]
    fn sites_are_found_where_they_stand_in_the_order_of_the_code() {
        const SITES: [Site; count_sites(&[FILE, r#"site!("b")"#])] =
            find_sites(&[FILE, r#"site!("b")"#]);
        assert_eq!(SITES.map(Site::name), ["a.P1.entry", "a.P1.fence", "b"]);
    }

    #[test]
    #[should_panic(expected = "a.P1.entry")]
    fn a_name_that_stands_twice_is_refused() {
        find_sites::<4>(&[FILE, FILE]);
    }

    #[test]
    fn a_file_that_is_in_no_list_is_noticed() {
        let folder = std::env::temp_dir().join(format!("everleaf-sites-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("insert")).unwrap();
        std::fs::write(folder.join("insert/mod.rs"), FILE).unwrap();
        std::fs::write(folder.join("tests.rs"), r#"site!("of.a.test")"#).unwrap();
        let listed: &[Site] = &find_sites::<2>(&[FILE]);
        let complete = undeclared_sites(&folder, &[listed]);
        std::fs::write(folder.join("split.rs"), r#"site!("c") site!("a.P1.fence")"#).unwrap();
        let wrong = undeclared_sites(&folder, &[listed]);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(complete.unwrap().is_empty());
        assert_eq!(wrong.unwrap(), ["a.P1.fence stands twice", "c is in no list"]);
    }
}
