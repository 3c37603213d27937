//! Files that commands read: by name, or standard input.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::Path;

use crate::failure::Failure;

/// Opens a file, or standard input for `-`; and its name for messages.
pub fn open(file: &Path) -> Result<(File, String), Failure> {
    let name = match is_standard(file) {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    };
    let refuse = |error| Failure::failed(format!("{name} cannot be read: {error}"));
    if is_standard(file) {
        // Not by way of its buffer: what waits for more must know what is there.
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(refuse)?;
        return Ok((File::from(input), name));
    }
    let opened = File::open(file).map_err(refuse)?;
    if opened.metadata().map_err(refuse)?.is_dir() {
        return Err(Failure::failed(format!("{name} is a folder; give a file")));
    }
    Ok((opened, name))
}

/// What compressed files begin with, and what unpacks them.
const PACKED: [(&[u8], &str, &str); 5] = [
    (b"\x1f\x8b", "gzip", "zcat"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstdcat"),
    (b"\xfd7zXZ\0", "xz", "xzcat"),
    (b"BZh?1AY&SY", "bzip2", "bzcat"),
    (b"BZh?\x17rE8P\x90", "bzip2", "bzcat"), // Of nothing.
];
/// What programs of other systems put before a text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What compressed a file, and what unpacks it.
type Packed = (&'static str, &'static str);
/// What was read of an input, and the rest.
type Begun<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// The first bytes of `input`, as many as tell what compressed it, if anything did: the name of
/// that, and of what unpacks it. They are read again with the rest.
pub fn begin<R: Read>(mut input: R) -> io::Result<(Begun<R>, Option<Packed>)> {
    let agree = |magic: &[u8], beginning: &[u8]| {
        magic.iter().zip(beginning).all(|(byte, found)| *byte == b'?' || byte == found)
    };
    let mut beginning = Vec::new();
    // No byte more than is needed: a program that writes a line may wait for an answer.
    let is_part =
        |magic: &[u8], beginning: &[u8]| magic.len() > beginning.len() && agree(magic, beginning);
    while PACKED.iter().any(|(magic, ..)| is_part(magic, &beginning))
        || is_part(BYTE_ORDER_MARK, &beginning)
    {
        if input.by_ref().take(1).read_to_end(&mut beginning)? == 0 {
            break;
        }
    }
    let packed = PACKED
        .iter()
        .find(|(magic, ..)| beginning.len() >= magic.len() && agree(magic, &beginning))
        .map(|(_, by, unpacks)| (*by, *unpacks));
    Ok((io::Cursor::new(beginning).chain(input), packed))
}

/// Whether the name stands for standard input.
pub fn is_standard(file: &Path) -> bool {
    file.as_os_str() == "-"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_is_known_by_its_beginning_and_nothing_is_lost_of_it() {
        for (content, by) in [
            (&b"\x1f\x8b\x08 and more of it"[..], Some("gzip")),
            (b"\x1f\x8b", Some("gzip")),
            (b"\x28\xb5\x2f\xfd\0", Some("zstd")),
            (b"\xfd7zXZ\0\0", Some("xz")),
            (b"BZh91AY&SY and more of it", Some("bzip2")),
            (b"BZh9\x17rE8P\x90", Some("bzip2")),
            (b"BZh9 is a word", None),
            (b"\x1f", None),
            (b"\xef\xbb\xbfleaf", None),
            (b"", None),
            (b"leaf", None),
        ] {
            let (mut input, packed) = begin(content).unwrap();
            assert_eq!(packed.map(|(by, _)| by), by, "{content:?}");
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            assert_eq!(all, content);
        }
    }
}
