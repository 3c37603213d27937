//! Lists the barriers of the pool and of the trees: every `site!("name")` in their sources, tests
//! left out.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use proc_macro2::{TokenStream, TokenTree};

fn main() -> Result<(), Box<dyn Error>> {
    let crates = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../crates");
    let pool = barriers_of(&crates.join("everleaf-pool"), "")?;
    let mut trees = barriers_of(&crates.join("../lab/everleaf-baselines"), "")?;
    let families: BTreeSet<_> = fs::read_dir(crates.join("trees"))?
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    for family in families {
        let name = family.file_name().unwrap_or_default().to_string_lossy().into_owned();
        trees.extend(barriers_of(&family, name.trim_start_matches("everleaf-"))?);
    }
    all_different(&trees)?;
    let mut list =
        String::from("/// Every barrier of the pool.\npub const POOL_SITES: &[Site] = &[\n");
    for (_, name) in pool {
        writeln!(list, "Site::new({name}),")?;
    }
    list.push_str(
        "];\n/// Every barrier of the trees, each with its family, or the folder of its file.\n\
        pub const TREE_SITES: &[(&str, Site)] = &[\n",
    );
    for (folder, name) in trees {
        writeln!(list, "({folder:?}, Site::new({name})),")?;
    }
    list.push_str("];\n");
    Ok(fs::write(Path::new(&env::var("OUT_DIR")?).join("sites.rs"), list)?)
}

/// The barriers of a crate: the folder below `family`, and the name as a literal.
fn barriers_of(path: &Path, family: &str) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let folder = path.join("src");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut found = Vec::new();
    read(&folder, family, &mut found)?;
    all_different(&found)?;
    Ok(found)
}

fn all_different(barriers: &[(String, String)]) -> Result<(), Box<dyn Error>> {
    let mut names = BTreeSet::new();
    match barriers.iter().find(|(_, name)| !names.insert(name)) {
        Some((_, name)) => Err(format!("the barrier {name} stands twice in the code").into()),
        None => Ok(()),
    }
}

/// Reads the files of a folder, and the folders in it, in the order of their names.
fn read(
    folder: &Path,
    below: &str,
    found: &mut Vec<(String, String)>,
) -> Result<(), Box<dyn Error>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths: BTreeSet<_> = entries.collect::<Result<_, std::io::Error>>()?;
    for path in paths {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if stem == "tests" {
            continue;
        }
        if path.is_dir() {
            let inner =
                if below.is_empty() { stem.into_owned() } else { format!("{below}/{stem}") };
            read(&path, &inner, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut names = Vec::new();
            find(fs::read_to_string(&path)?.parse()?, &mut names);
            found.extend(names.into_iter().map(|name| (below.to_owned(), name)));
        }
    }
    Ok(())
}

/// The literals in `site!(..)`, without what stands in `mod tests`.
fn find(tokens: TokenStream, names: &mut Vec<String>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        let before = tokens[at.saturating_sub(2)..at].iter().map(ToString::to_string);
        match before.collect::<Vec<_>>().join(" ").as_str() {
            "mod tests" => {}
            "site !" => names.push(group.stream().to_string()),
            _ => find(group.stream(), names),
        }
    }
}
