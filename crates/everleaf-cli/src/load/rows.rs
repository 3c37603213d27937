//! `csv`: the rows of a file with a header, as JSON objects.

use std::io::BufRead;

use super::rfc4180::Strict;
use super::{Record, Records};
use crate::size::display_counted;

/// Reads rows. The value of a row is a JSON object of strings in header order; its key is made of
/// the key columns, joined by `/`.
pub struct Rows {
    reader: csv::Reader<Strict<Box<dyn BufRead>>>,
    row: csv::ByteRecord,
    number: u64,
    /// Each column's name as JSON, with its colon.
    names: Vec<Vec<u8>>,
    key_columns: Vec<usize>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Why rows cannot be read at all.
#[derive(Debug)]
pub enum HeaderError {
    /// There is no such key column: the command is wrong.
    KeyColumn(String),
    /// The file has no header that can be used.
    Header(String),
}

impl From<String> for HeaderError {
    fn from(complaint: String) -> Self {
        Self::Header(complaint)
    }
}

impl Rows {
    /// Reads the header and finds the key columns in it: `wanted` is one column, or several with
    /// commas between, each by its name or by its number from 1. A row has at most `max_row_bytes`.
    pub fn new(
        input: Box<dyn BufRead>,
        wanted: &str,
        max_row_bytes: u64,
    ) -> Result<Self, HeaderError> {
        // The count of fields is compared here, so that the message can name the row.
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(Strict::new(input, max_row_bytes));
        let mut header = csv::ByteRecord::new();
        if !reader.read_byte_record(&mut header).map_err(|error| complaint(error, "the header"))? {
            let what = "the file is empty, so it has no header that names its columns";
            return Err(HeaderError::Header(what.to_owned()));
        }
        let header = csv::StringRecord::from_byte_record(header)
            .map_err(|_| "the header is not UTF-8, so this is no CSV text".to_owned())?;
        let header: Vec<&str> = header.iter().collect();
        if let Some(twice) =
            (1..header.len()).find(|column| header[..*column].contains(&header[*column]))
        {
            return Err(HeaderError::Header(format!(
                "the header names two columns `{}`; a column's name must be its own",
                header[twice]
            )));
        }
        let key_columns = find_columns(&header, wanted).map_err(HeaderError::KeyColumn)?;
        let names =
            header.iter().map(|name| json_string(name).map(|json| [json, b":".to_vec()].concat()));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let row = csv::ByteRecord::new();
        Ok(Self { reader, row, number: 0, names, key_columns, key: Vec::new(), value: Vec::new() })
    }

    fn encode(&mut self) -> Result<(), String> {
        self.value.clear();
        for (column, (name, field)) in self.names.iter().zip(&self.row).enumerate() {
            let Ok(text) = str::from_utf8(field) else {
                return Err(format!(
                    "row {} is not UTF-8 in column {}, so it cannot be stored as JSON",
                    self.number,
                    column + 1
                ));
            };
            self.value.push(if column == 0 { b'{' } else { b',' });
            self.value.extend_from_slice(name);
            self.value.extend_from_slice(&json_string(text)?);
        }
        self.value.push(b'}');
        self.key.clear();
        for (place, column) in self.key_columns.iter().enumerate() {
            if place > 0 {
                self.key.push(b'/');
            }
            self.key.extend_from_slice(&self.row[*column]);
        }
        Ok(())
    }
}

impl Records for Rows {
    fn unit(&self) -> &'static str {
        "row"
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, String> {
        self.number += 1;
        let place = format_args!("row {}", self.number).to_string();
        if !self.reader.read_byte_record(&mut self.row).map_err(|error| complaint(error, &place))? {
            return Ok(None);
        }
        if self.row.len() != self.names.len() {
            let line = self.row.position().map_or(0, csv::Position::line);
            let fields = display_counted(self.row.len() as u64, "field");
            let columns = display_counted(self.names.len() as u64, "column");
            return Err(format!(
                "{place} (line {line}) has {fields}, but the header names {columns}"
            ));
        }
        self.encode()?;
        Ok(Some(Record { number: self.number, key: &self.key, value: &self.value }))
    }
}

fn json_string(text: &str) -> Result<Vec<u8>, String> {
    serde_json::to_vec(text).map_err(|error| error.to_string())
}

fn complaint(error: csv::Error, place: &str) -> String {
    match error.into_kind() {
        csv::ErrorKind::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            format!("{place}: {error}")
        }
        csv::ErrorKind::Io(error) => super::unreadable(&error),
        _ => format!("{place} cannot be read as CSV"),
    }
}

fn find_columns(header: &[&str], wanted: &str) -> Result<Vec<usize>, String> {
    // A column whose name has a comma in it can be asked for when it is the only one.
    if let Some(column) = header.iter().position(|name| *name == wanted) {
        return Ok(vec![column]);
    }
    wanted.split(',').map(|wanted| find_column(header, wanted)).collect()
}

fn find_column(header: &[&str], wanted: &str) -> Result<usize, String> {
    if let Some(column) = header.iter().position(|name| *name == wanted) {
        return Ok(column);
    }
    match wanted.parse::<usize>() {
        Ok(number) if (1..=header.len()).contains(&number) => Ok(number - 1),
        _ => Err(format!(
            "there is no key column `{wanted}`; the header names {}",
            header.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &'static [u8], wanted: &str) -> Result<Rows, String> {
        Rows::new(Box::new(text), wanted, 1000).map_err(|error| match error {
            HeaderError::KeyColumn(what) | HeaderError::Header(what) => what,
        })
    }

    fn all(text: &'static [u8], wanted: &str) -> Result<Vec<(String, String)>, String> {
        let mut rows = rows(text, wanted)?;
        let mut all = Vec::new();
        while let Some(record) = rows.next()? {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            all.push((text(record.key), text(record.value)));
        }
        Ok(all)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn a_row_is_a_json_object_of_strings_in_header_order() {
        let text = b"\xef\xbb\xbfz,a,\"b \"\"q\"\"\"\r\n1,x,\"line\nbreak, \
            comma\"\r\n\r\n2,\"\",\xc3\xa4\r\n";
        let expected = [
            pair("1", r#"{"z":"1","a":"x","b \"q\"":"line\nbreak, comma"}"#),
            pair("2", "{\"z\":\"2\",\"a\":\"\",\"b \\\"q\\\"\":\"ä\"}"),
        ];
        assert_eq!(all(text, "z").unwrap(), expected);
    }

    #[test]
    fn key_columns_by_name_or_number_joined_by_slashes() {
        let text = b"name,2,\"x,y\"\nA,B,C\n";
        for (wanted, key) in [
            ("name", "A"),
            ("1", "A"),
            ("2", "B"),
            ("3", "C"),
            ("x,y", "C"),
            ("2,name", "B/A"),
            ("3,3", "C/C"),
        ] {
            assert_eq!(all(text, wanted).unwrap()[0].0, key, "{wanted}");
        }
        for wanted in ["", "nosuch", "0", "4", "name,", "Name"] {
            assert!(all(text, wanted).unwrap_err().contains("name, 2, x,y"), "{wanted}");
        }
    }

    #[test]
    fn bad_files_are_named() {
        for (text, complaint) in [
            (&b""[..], "empty"),
            (b"a,a\n1,2\n", "two columns `a`"),
            (b"a,b\n1,2\n1,2,3\n", "row 2 (line 3) has 3 fields, but the header names 2"),
            (b"a,b\n1\n", "row 1 (line 2) has 1 field,"),
            (b"a\xff,b\n", "not UTF-8"),
            (b"a,b\n1,\xff\n", "row 1 is not UTF-8 in column 2"),
            (b"a,b\n1,2\n3,\"4\n", "row 2: the quote that opens a field in line 3"),
            (b"\x7fELF\x02\0\0\0", "no CSV file"),
        ] {
            let said = all(text, "1").unwrap_err();
            assert!(said.contains(complaint), "{said}");
        }
    }

    #[test]
    fn rows_before_a_bad_one_are_read() {
        let mut rows = rows(b"a\n1\n2\nx\"y\n", "a").unwrap();
        assert_eq!(rows.next().unwrap().unwrap().key, b"1");
        assert_eq!(rows.next().unwrap().unwrap().key, b"2");
        assert!(rows.next().unwrap_err().contains("line 4"));
    }
}
