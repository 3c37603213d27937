//! A power failure in the middle of an operation of the preparation.

use everleaf_crash::{Event, Traced};
use everleaf_pmem::{LINE, Line, Media, WORD, site};

use super::{EngineState, EngineSubject, sentence};
use crate::Cut;

/// The words of a line.
const LINE_WORDS: usize = LINE / WORD;

impl EngineSubject {
    /// Leaves in `media`, durably, what the preparation and then the operation of `cut` have stored
    /// before its barrier.
    pub(super) fn prepare_cut(&self, media: &Traced, cut: &Cut) -> Result<(), String> {
        let scratch =
            Traced::new(media.region().len(), media.region().max_len(), 0).map_err(sentence)?;
        let mut state = EngineState {
            target: None,
            shutdown: None,
            is_recovered: false,
            media: scratch.clone(),
        };
        self.prepare_whole(&mut state)?;
        scratch.take_events();
        self.step(&mut state, &cut.operation)?;
        let events = scratch.take_events();
        let mut image = scratch.image();
        undo(&mut image, &events, cut)?;
        if self.cut_happened.get().is_none() {
            let _ = self.cut_happened.set(self.happened(&image, media.region().max_len())?);
        }
        write_durably(media, &image)
    }

    /// Whether a recovery finds that the cut operation has happened.
    fn happened(&self, image: &[u64], max_len: u64) -> Result<bool, String> {
        let copy = Traced::from_image(image, max_len, 0).map_err(sentence)?;
        let found = self.open(copy)?.0.content()?;
        match &self.contents {
            [before, _] if found == before[0] => Ok(false),
            [_, after] if found == after[0] => Ok(true),
            _ => Err("the operation that was cut has happened in part".to_owned()),
        }
    }
}

/// Takes back what was stored from the first barrier called `cut.site` on.
fn undo(image: &mut [u64], events: &[Event], cut: &Cut) -> Result<(), String> {
    let named = |event: &Event| match event {
        Event::Flush { site, .. } | Event::Fence { site } | Event::Order { site } => {
            site.name() == cut.site
        }
        _ => false,
    };
    let crash = events.iter().position(named);
    let crash = crash
        .ok_or_else(|| format!("`{}` does not reach the barrier {}", cut.operation, cut.site))?;
    for event in events[crash..].iter().rev() {
        if let Event::Store { offset, old, .. } | Event::UnorderedStore { offset, old, .. } = *event
        {
            image[offset as usize / WORD] = old;
        }
    }
    Ok(())
}

/// Leaves `image` in `media`, durably.
pub(super) fn write_durably(media: &Traced, image: &[u64]) -> Result<(), String> {
    let bytes = (image.len() * WORD) as u64;
    if bytes > media.region().len() {
        media.grow(bytes).map_err(sentence)?;
    }
    for (i, words) in image.chunks(LINE_WORDS).enumerate() {
        let line = media.region().at::<Line>((i * LINE) as u64).ok_or("a line outside the pool")?;
        for (cell, word) in line.0.iter().zip(words) {
            media.store(cell, *word);
        }
        media.flush(site!("testkit.cut.line"), &line.0[0]);
    }
    media.fence(site!("testkit.cut.fence"));
    Ok(())
}
