//! Names and passwords, and how they are compared.

use std::path::Path;

use crate::setting_file::read_setting_file;

/// Who may use the server.
#[derive(Clone, Debug, Default)]
pub struct Users {
    entries: Vec<Vec<u8>>,
}

impl Users {
    /// Reads a file with a line `name:password` for each user.
    ///
    /// # Errors
    /// What the system says, or a sentence about the file's form.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = read_setting_file(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let users = Self::parse(&text);
        if users.entries.is_empty() {
            return Err(format!(
                "{} names no user; write a line name:password for each user",
                path.display()
            ));
        }
        Ok(users)
    }

    fn parse(text: &[u8]) -> Self {
        let lines = text.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
        let entry = |line: &[u8]| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let mut entry = line.to_vec();
            entry[colon] = b' ';
            Some(entry)
        };
        Self { entries: lines.filter_map(entry).collect() }
    }

    /// Whether a name, a blank and a password are those of a user. It takes the same time
    /// wherever they differ.
    pub fn know(&self, given: &[u8]) -> bool {
        let same = |entry: &Vec<u8>| same_bytes(entry, given);
        self.entries.iter().map(same).fold(false, |any, this| any | this)
    }
}

/// Whether two strings are the same, in a time that depends on their lengths only.
pub fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differences) == 0 && a.len() == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_known_by_name_and_password() {
        let users = Users::parse(b"ann:one:two\r\nbob:three\n\nnonsense\n");
        assert!(users.know(b"ann one:two") && users.know(b"bob three"));
        for no in [&b"ann one"[..], b"ann:one:two", b"bob three ", b"", b"nonsense"] {
            assert!(!users.know(no), "{no:?}");
        }
    }
}
