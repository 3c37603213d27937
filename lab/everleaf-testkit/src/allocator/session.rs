//! Sessions on a medium that they cannot flush to, as far as a pool on recorded memory can be left
//! by one: what they store is in the caches of the processor, and a power failure may lose any of
//! it. Recorded memory has no file; what a header says of boots is taken from one that has.

use everleaf_crash::Traced;
use everleaf_pmem::{Cpu, LINE, Mapped, Media, WORD, site};
use everleaf_pool::{Format, KeyType, Pool};

/// The words of the header that say who has the pool open, by their places in the pool: the state,
/// and the boot of the machine.
const SESSION: std::ops::Range<usize> = 24..28;

pub(super) fn sentence(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// What these words are in a pool on a file that is open under this boot.
fn open_on_a_file() -> Result<Vec<u64>, String> {
    let folder = tempfile::tempdir().map_err(sentence)?;
    let path = folder.path().join("session.pool");
    let format = Format { engine: "session".into(), key_type: KeyType::U64, parameters: [0; 8] };
    let made = everleaf_pool::create_file(&path, 64 << 10, 64 << 10, |region| {
        Pool::create(Mapped::new(region, &Cpu::detect())?, &format)
    });
    drop(made.map_err(sentence)?);
    let bytes = std::fs::read(&path).map_err(sentence)?;
    let (words, _) = bytes[SESSION.start * WORD..SESSION.end * WORD].as_chunks::<WORD>();
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// Whether the pool was left by such a session. After a power failure the machine has another boot
/// than the header tells of, so the pool refuses what it holds (its own tests show that).
pub(super) fn is_refused(media: &Traced) -> Result<bool, String> {
    /// As docs/format.md has it: the content of a word that checks itself, and the state.
    const CONTENT: u64 = (1 << 48) - 1;
    const OPEN: u64 = 2;
    let cells = media.region().cells((SESSION.start * WORD) as u64, 1).ok_or("a shorter pool")?;
    Ok(media.load(&cells[0]) & CONTENT == OPEN)
}

/// Lets `session` open the pool and use it; the pool says so durably, and nothing else of what it
/// stored is flushed.
pub(super) fn without_flushes(
    media: &Traced,
    session: impl FnOnce(Traced) -> Result<(), String>,
) -> Result<(), String> {
    let before = media.image();
    let scratch = Traced::from_image(&before, media.region().max_len(), 0).map_err(sentence)?;
    session(scratch.clone())?;
    let mut after = scratch.image();
    after[SESSION].copy_from_slice(&open_on_a_file()?);
    let cells = media.region().cells(0, before.len()).ok_or("a shorter pool")?;
    let line = SESSION.start - SESSION.start % (LINE / WORD);
    let of_header = line..line + LINE / WORD;
    of_header.clone().for_each(|word| media.store(&cells[word], after[word]));
    media.flush(site!("testkit.session.state"), &cells[line]);
    media.fence(site!("testkit.session.fence"));
    let changed = (0..before.len()).filter(|word| before[*word] != after[*word]);
    changed.filter(|word| !of_header.contains(word)).for_each(|word| {
        media.store(&cells[word], after[word]);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_session_are_where_the_format_has_them() {
        let (layouts, _) = everleaf_pool::layouts();
        let header = layouts.iter().find(|layout| layout.name == "Header").unwrap();
        let field = |name: &str| header.fields.iter().find(|field| field.name == name).unwrap();
        let (state, boot) = (field("state"), field("boot_id"));
        assert_eq!(SESSION, state.offset / WORD..(boot.offset + boot.bytes) / WORD);
        assert_eq!(boot.offset, state.offset + WORD);
    }
}
