//! What the lines of a pool hold that are where they are in every pool. All others are known by the
//! names of their flushes.

use everleaf_pmem::{Field, LINE};

/// The part of a pool that a line belongs to, as docs/format.md calls it; none if that is the
/// business of its chunk.
pub(crate) fn part_of(line: u64) -> Option<String> {
    let offset = line as usize * LINE;
    let (layouts, _) = everleaf_pool::layouts();
    let field_at = |structure: &str, offset: usize| -> Option<Field> {
        let layout = layouts.iter().find(|layout| layout.name == structure)?;
        layout
            .fields
            .iter()
            .find(|field| (field.offset..field.offset + field.bytes).contains(&offset))
            .cloned()
    };
    let part = field_at("Pool", offset)?;
    match part.name.as_str() {
        "header" => {
            field_at("Header", offset).map(|field| format!("header of the pool: {}", field.name))
        }
        "intents" => Some(format!("intent of worker {}", (offset - part.offset) / LINE)),
        "index" => Some(format!("root of the index, line {}", (offset - part.offset) / LINE)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_names_of_the_format() {
        let names = [0, 3, 4, 64, 65, 128, 130, 192, 100_000].map(part_of);
        let expected = [
            Some("header of the pool: identity"),
            Some("header of the pool: state"),
            Some("header of the pool: extents"),
            Some("intent of worker 0"),
            Some("intent of worker 1"),
            Some("root of the index, line 0"),
            Some("root of the index, line 2"),
            None,
            None,
        ];
        assert_eq!(names.each_ref().map(Option::as_deref), expected);
    }
}
