//! Names of types, as the catalog of trees has them.
//!
//! What Rust says a type is called may change with the compiler, so the types that this crate knows
//! have names of its own; those of users' types have no modules, which programs move around.

/// A name of a type without the modules that it and its parameters lie in.
pub(super) fn without_modules(path: &str) -> String {
    let mut name = String::with_capacity(path.len());
    let mut segment = 0;
    for character in path.chars() {
        name.push(character);
        if name.ends_with("::") {
            name.truncate(segment);
        } else if !(character.is_alphanumeric() || ['_', ':'].contains(&character)) {
            segment = name.len();
        }
    }
    name
}

/// The name of a tuple of types with these names.
pub(super) fn tuple(parts: &[String]) -> String {
    format!("({})", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_modules() {
        for (path, name) in [
            ("u64", "u64"),
            ("alloc::string::String", "String"),
            ("(alloc::vec::Vec<u8>, my::own::Kind)", "(Vec<u8>, Kind)"),
            ("my_app::Pair<a::b::C, [d::E; 4]>", "Pair<C, [E; 4]>"),
            ("&a::B", "&B"),
            ("", ""),
        ] {
            assert_eq!(without_modules(path), name);
        }
    }
}
