//! `jsonl` of others: an object a line, a field of which is the key.

use std::io::BufRead;

use serde_json::{Map, Value};

use super::{Record, Records, TextLines};
use crate::keys::readable;

/// Reads any objects of JSON. The value is the object as it stands in the file; the key is a field
/// of it, a text or a number, or several, joined by `/`. Empty lines are skipped, and counted.
pub struct JsonObjects {
    text: TextLines,
    fields: String,
    key: Vec<u8>,
}

impl JsonObjects {
    /// From the beginning of `input`: `fields` is the name of one field, or of several with commas
    /// between; a line has at most `max_line_bytes`.
    pub fn new(input: Box<dyn BufRead>, fields: &str, max_line_bytes: usize) -> Self {
        let text = TextLines::new(input, max_line_bytes);
        Self { text, fields: fields.to_owned(), key: Vec::new() }
    }

    fn parse(&mut self) -> Result<(), String> {
        let object: Map<String, Value> = match serde_json::from_slice(&self.text.line) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return Err("is no object of JSON".to_owned()),
            Err(error) => return Err(format!("is no JSON from byte {} on", error.column())),
        };
        self.key.clear();
        // A field whose name has a comma in it can be asked for when it is the only one.
        if object.contains_key(&self.fields) {
            return add(&object, &self.fields, &mut self.key);
        }
        for (place, field) in self.fields.split(',').enumerate() {
            if place > 0 {
                self.key.push(b'/');
            }
            add(&object, field, &mut self.key)?;
        }
        Ok(())
    }
}

/// Appends a field's value to a key.
fn add(object: &Map<String, Value>, field: &str, key: &mut Vec<u8>) -> Result<(), String> {
    let name = readable(field.as_bytes());
    match object.get(field) {
        Some(Value::String(text)) => key.extend_from_slice(text.as_bytes()),
        Some(Value::Number(number)) => {
            key.extend_from_slice(number.to_string().as_bytes());
        }
        Some(_) => {
            return Err(format!("has a field `{name}` that is neither a text nor a number"));
        }
        None => return Err(format!("has no field `{name}`, which is to be its key")),
    }
    Ok(())
}

impl Records for JsonObjects {
    fn next(&mut self) -> Result<Option<Record<'_>>, String> {
        if !self.text.advance()? {
            return Ok(None);
        }
        let number = self.text.number;
        self.parse().map_err(|what| format!("line {number} {what}"))?;
        Ok(Some(Record { number, key: &self.key, value: self.text.line.trim_ascii() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &'static str, fields: &str) -> JsonObjects {
        JsonObjects::new(Box::new(text.as_bytes()), fields, 100)
    }

    #[test]
    fn the_key_is_a_field_and_the_value_the_object_as_it_stands() {
        let text = "{\"id\":7, \"n\":\"ann\",\"x,y\":\"z\"}\r\n\n {\"n\":\"bob\",\"id\":-8}\n";
        for (fields, keys) in [("id", ["7", "-8"]), ("n,id", ["ann/7", "bob/-8"])] {
            let mut objects = objects(text, fields);
            let first = objects.next().unwrap().unwrap();
            assert_eq!(first.value, b"{\"id\":7, \"n\":\"ann\",\"x,y\":\"z\"}");
            assert_eq!((first.number, first.key), (1, keys[0].as_bytes()));
            let second = objects.next().unwrap().unwrap();
            assert_eq!((second.number, second.key), (3, keys[1].as_bytes()));
            assert_eq!(objects.next(), Ok(None));
        }
        assert_eq!(objects(text, "x,y").next().unwrap().unwrap().key, b"z");
    }

    #[test]
    fn what_has_no_such_field_is_named() {
        for (text, what) in [
            ("{\"id\":1}\n", "line 1 has no field `n`, which is to be its key"),
            ("{\"n\":[1]}\n", "line 1 has a field `n` that is neither"),
            ("{\"n\":null}\n", "line 1 has a field `n` that is neither"),
            ("[1]\n", "line 1 is no object of JSON"),
            ("{\"n\":1,}\n", "line 1 is no JSON from byte 8 on"),
        ] {
            assert_eq!(objects(text, "n").next().unwrap_err().find(what), Some(0), "{text}");
        }
    }
}
