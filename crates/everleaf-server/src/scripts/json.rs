//! The module `cjson`, as Redis' scripts have it.

use std::sync::Arc;

use mlua::{IntoLua, Lua, MultiValue, Table, Value};
use parking_lot::Mutex;

use super::arguments::{Arguments, add, number_of, type_name};
use super::control::Control;
use super::errors::fail;
use super::numbers::general;
use super::strings::check_bytes;

/// The deepest that arrays and objects may lie in each other, whatever a script asks for.
const DEPTH: i64 = 1000;

#[derive(Clone, Copy, PartialEq)]
enum Invalid {
    Refused,
    Taken,
    Null,
}

/// What a script has set.
#[derive(Clone)]
struct Settings {
    encode_depth: i64,
    decode_depth: i64,
    digits: i64,
    /// Whether arrays with many gaps become objects, and which those are.
    sparse: (bool, i64, i64),
    encode_invalid: Invalid,
    decode_invalid: Invalid,
    keep_buffer: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            encode_depth: DEPTH,
            decode_depth: DEPTH,
            digits: 14,
            sparse: (false, 2, 10),
            encode_invalid: Invalid::Refused,
            decode_invalid: Invalid::Taken,
            keep_buffer: true,
        }
    }
}

/// The module.
pub fn module(lua: &Lua, control: &Arc<Control>) -> mlua::Result<Table> {
    let (table, settings) = (lua.create_table()?, Arc::new(Mutex::new(Settings::default())));
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    table.raw_set("null", Value::NULL)?;
    let (own, bounds) = (Arc::clone(&settings), Arc::clone(control));
    add(lua, &table, "encode", move |arguments| {
        if arguments.count() != 1 {
            return Err(arguments.bad(0, "expected 1 argument"));
        }
        let settings = own.lock().clone();
        let mut encoder =
            Encoder { lua: arguments.lua, settings, out: Vec::new(), bounds: &bounds };
        encoder.value(&arguments.values[0], 0)?;
        arguments.lua.create_string(encoder.out)
    })?;
    let (own, bounds) = (Arc::clone(&settings), Arc::clone(control));
    add(lua, &table, "decode", move |arguments| {
        if arguments.count() != 1 {
            return Err(arguments.bad(0, "expected 1 argument"));
        }
        let (text, settings) = (arguments.string(0)?, own.lock().clone());
        Decoder { lua: arguments.lua, text: &text.as_bytes(), at: 0, settings, bounds: &bounds }
            .all()
    })?;
    let bounds = Arc::clone(control);
    add(lua, &table, "new", move |arguments| module(arguments.lua, &bounds))?;
    set(lua, &table, &settings)?;
    Ok(table)
}

/// A number between two, if there is one; what it is then.
fn integer(
    arguments: &Arguments<'_>,
    at: usize,
    (least, most): (i64, i64),
    number: &mut i64,
) -> mlua::Result<i64> {
    if arguments.get(at).is_some() {
        let asked = arguments.integer_or(at, 0)?;
        if !(least..=most).contains(&asked) {
            let what = format!("expected integer between {least} and {most}");
            return Err(arguments.bad(at, &what));
        }
        *number = asked;
    }
    Ok(*number)
}

fn choice(
    arguments: &Arguments<'_>,
    words: &[(&str, Invalid)],
    chosen: &mut Invalid,
) -> mlua::Result<MultiValue> {
    match arguments.get(0) {
        None => {}
        Some(Value::Boolean(yes)) => *chosen = if *yes { Invalid::Taken } else { Invalid::Refused },
        Some(_) => {
            let word = arguments.string(0)?.to_string_lossy();
            let found = words.iter().find(|(known, _)| *known == word);
            let wrong = || arguments.bad(0, &format!("invalid option '{word}'"));
            *chosen = found.ok_or_else(wrong)?.1;
        }
    }
    let value = match chosen {
        Invalid::Refused => Value::Boolean(false),
        Invalid::Taken => Value::Boolean(true),
        Invalid::Null => "null".into_lua(arguments.lua)?,
    };
    Ok(MultiValue::from_vec(vec![value]))
}

/// The functions that change settings.
fn set(lua: &Lua, table: &Table, settings: &Arc<Mutex<Settings>>) -> mlua::Result<()> {
    let most = i64::from(i32::MAX);
    let own = Arc::clone(settings);
    add(lua, table, "encode_max_depth", move |arguments| {
        integer(&arguments, 0, (1, most), &mut own.lock().encode_depth).map(|depth| depth as f64)
    })?;
    let own = Arc::clone(settings);
    add(lua, table, "decode_max_depth", move |arguments| {
        integer(&arguments, 0, (1, most), &mut own.lock().decode_depth).map(|depth| depth as f64)
    })?;
    let own = Arc::clone(settings);
    add(lua, table, "encode_number_precision", move |arguments| {
        integer(&arguments, 0, (1, 14), &mut own.lock().digits).map(|digits| digits as f64)
    })?;
    let own = Arc::clone(settings);
    add(lua, table, "encode_keep_buffer", move |arguments| {
        let keep = &mut own.lock().keep_buffer;
        if let Some(asked) = arguments.get(0) {
            *keep = !matches!(asked, Value::Boolean(false));
        }
        Ok(*keep)
    })?;
    let own = Arc::clone(settings);
    add(lua, table, "encode_sparse_array", move |arguments| {
        let (converts, ratio, safe) = &mut own.lock().sparse;
        if let Some(asked) = arguments.get(0) {
            *converts = !matches!(asked, Value::Boolean(false));
        }
        integer(&arguments, 1, (0, most), ratio)?;
        integer(&arguments, 2, (0, most), safe)?;
        Ok((*converts, *ratio as f64, *safe as f64))
    })?;
    let words = [("off", Invalid::Refused), ("on", Invalid::Taken), ("null", Invalid::Null)];
    let own = Arc::clone(settings);
    add(lua, table, "encode_invalid_numbers", move |arguments| {
        choice(&arguments, &words, &mut own.lock().encode_invalid)
    })?;
    let own = Arc::clone(settings);
    add(lua, table, "decode_invalid_numbers", move |arguments| {
        choice(&arguments, &words[..2], &mut own.lock().decode_invalid)
    })
}

// ---- encoding
// -------------------------------------------------------------------------------------------------

struct Encoder<'e> {
    lua: &'e Lua,
    settings: Settings,
    out: Vec<u8>,
    bounds: &'e Control,
}

impl Encoder<'_> {
    fn refused(&self, value: &Value, why: &str) -> mlua::Error {
        fail(self.lua, &format!("Cannot serialise {}: {why}", type_name(Some(value))))
    }

    fn value(&mut self, value: &Value, depth: i64) -> mlua::Result<()> {
        check_bytes(self.bounds, self.out.len())?;
        match value {
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::Boolean(yes) => {
                self.out.extend_from_slice(if *yes { b"true" } else { b"false" })
            }
            Value::String(text) => self.string(&text.as_bytes()),
            Value::LightUserData(_) if value.is_null() => self.out.extend_from_slice(b"null"),
            Value::Table(table) => self.table(table, depth + 1)?,
            value => match number_of(value) {
                Some(number) => self.number(value, number)?,
                None => return Err(self.refused(value, "type not supported")),
            },
        }
        Ok(())
    }

    fn number(&mut self, value: &Value, number: f64) -> mlua::Result<()> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refused => return Err(self.refused(value, "must not be NaN or Inf")),
                Invalid::Null => self.out.extend_from_slice(b"null"),
                Invalid::Taken if number.is_nan() => self.out.extend_from_slice(b"nan"),
                Invalid::Taken => self.out.extend(general(number, 14).bytes()),
            }
            return Ok(());
        }
        self.out.extend(general(number, self.settings.digits as usize).bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for byte in text {
            let escape = match byte {
                b'"' => b'"',
                b'\\' => b'\\',
                b'/' => b'/',
                8 => b'b',
                9 => b't',
                10 => b'n',
                12 => b'f',
                13 => b'r',
                0..32 | 127 => {
                    self.out.extend(format!("\\u{byte:04x}").bytes());
                    continue;
                }
                _ => {
                    self.out.push(*byte);
                    continue;
                }
            };
            self.out.extend([b'\\', escape]);
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table, depth: i64) -> mlua::Result<()> {
        if depth > self.settings.encode_depth.min(DEPTH) {
            let sentence = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(fail(self.lua, &sentence));
        }
        match self.array_length(table)? {
            Some(length) => {
                for at in 1..=length {
                    self.out.push(if at == 1 { b'[' } else { b',' });
                    let value: Value = table.raw_get(at)?;
                    self.value(&value, depth)?;
                }
                self.out.push(b']');
            }
            None => {
                let mut mark = b'{';
                for pair in table.pairs::<Value, Value>() {
                    let (name, value) = pair?;
                    self.out.push(mark);
                    mark = b',';
                    match (&name, number_of(&name)) {
                        (Value::String(name), _) => self.string(&name.as_bytes()),
                        (_, Some(number)) => {
                            self.out.push(b'"');
                            self.number(&name, number)?;
                            self.out.push(b'"');
                        }
                        _ => {
                            let why = "table key must be a number or string";
                            return Err(self.refused(&name, why));
                        }
                    }
                    self.out.push(b':');
                    self.value(&value, depth)?;
                }
                if mark == b'{' {
                    self.out.push(b'{');
                }
                self.out.push(b'}');
            }
        }
        Ok(())
    }

    /// The length of an array; none: it is an object.
    fn array_length(&self, table: &Table) -> mlua::Result<Option<i64>> {
        let (mut greatest, mut count) = (0.0_f64, 0_i64);
        for pair in table.pairs::<Value, Value>() {
            match number_of(&pair?.0) {
                Some(number) if number >= 1.0 && number.floor() == number => {
                    greatest = greatest.max(number);
                    count += 1;
                }
                _ => return Ok(None),
            }
        }
        let (converts, ratio, safe) = self.settings.sparse;
        let sparse = ratio > 0 && greatest > count as f64 * ratio as f64 && greatest > safe as f64;
        if sparse && converts {
            return Ok(None);
        }
        if sparse {
            let sentence = "Cannot serialise table: excessively sparse array";
            return Err(fail(self.lua, sentence));
        }
        Ok((count > 0).then_some(greatest as i64))
    }
}

// ---- decoding
// -------------------------------------------------------------------------------------------------

#[derive(Clone, PartialEq)]
enum Token {
    Mark(u8),
    Word(Value),
    Number(f64),
    Text(Vec<u8>),
    End,
    Wrong(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Self::Mark(b'{') => "T_OBJ_BEGIN",
            Self::Mark(b'}') => "T_OBJ_END",
            Self::Mark(b'[') => "T_ARR_BEGIN",
            Self::Mark(b']') => "T_ARR_END",
            Self::Mark(b':') => "T_COLON",
            Self::Mark(_) => "T_COMMA",
            Self::Word(Value::Boolean(_)) => "T_BOOLEAN",
            Self::Word(_) => "T_NULL",
            Self::Number(_) => "T_NUMBER",
            Self::Text(_) => "T_STRING",
            Self::End => "T_END",
            Self::Wrong(why) => why,
        }
    }
}

struct Decoder<'d> {
    lua: &'d Lua,
    text: &'d [u8],
    at: usize,
    settings: Settings,
    bounds: &'d Control,
}

impl Decoder<'_> {
    fn all(mut self) -> mlua::Result<Value> {
        if let [first, second, ..] = self.text
            && (*first == 0 || *second == 0)
        {
            return Err(fail(self.lua, "JSON parser does not support UTF-16 or UTF-32"));
        }
        let token = self.token();
        let value = self.value(token, 0)?;
        match self.token() {
            (Token::End, _) => Ok(value),
            found => Err(self.expected("the end", &found)),
        }
    }

    fn expected(&self, what: &str, (found, at): &(Token, usize)) -> mlua::Error {
        let found = found.name();
        fail(self.lua, &format!("Expected {what} but found {found} at character {}", at + 1))
    }

    /// The next token, and where it begins.
    fn token(&mut self) -> (Token, usize) {
        let rest = &self.text[self.at..];
        let blanks = rest.iter().take_while(|byte| b" \t\n\r".contains(byte)).count();
        self.at += blanks;
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.first() else { return (Token::End, start) };
        let words = [
            (&b"true"[..], Value::Boolean(true)),
            (b"false", Value::Boolean(false)),
            (b"null", Value::NULL),
        ];
        let token = match first {
            b'{' | b'}' | b'[' | b']' | b':' | b',' => {
                self.at += 1;
                Token::Mark(*first)
            }
            b'"' => return self.string(),
            b'+' | b'-' | b'0'..=b'9' => self.number(),
            b'i' | b'I' | b'n' | b'N' if is_invalid_number(rest) && !rest.starts_with(b"null") => {
                self.number()
            }
            _ => match words.into_iter().find(|(word, _)| rest.starts_with(word)) {
                Some((word, value)) => {
                    self.at += word.len();
                    Token::Word(value)
                }
                None => Token::Wrong("invalid token"),
            },
        };
        (token, start)
    }

    fn number(&mut self) -> Token {
        let rest = &self.text[self.at..];
        if self.settings.decode_invalid == Invalid::Refused && is_invalid_number(rest) {
            return Token::Wrong("invalid number");
        }
        match number_at(rest) {
            Some((number, bytes)) => {
                self.at += bytes;
                Token::Number(number)
            }
            None => Token::Wrong("invalid number"),
        }
    }

    fn string(&mut self) -> (Token, usize) {
        let (start, mut out) = (self.at, Vec::new());
        let mut at = start + 1;
        loop {
            let Some(byte) = self.text.get(at) else {
                return (Token::Wrong("unexpected end of string"), self.text.len());
            };
            match byte {
                b'"' => break,
                b'\\' => {
                    let escaped = match self.text.get(at + 1) {
                        Some(b'u') => match unicode(&self.text[at..]) {
                            Some((letter, bytes)) => {
                                out.extend(letter);
                                at += bytes;
                                continue;
                            }
                            None => return (Token::Wrong("invalid unicode escape code"), at),
                        },
                        Some(other @ (b'"' | b'\\' | b'/')) => *other,
                        Some(b'b') => 8,
                        Some(b't') => 9,
                        Some(b'n') => 10,
                        Some(b'f') => 12,
                        Some(b'r') => 13,
                        _ => return (Token::Wrong("invalid escape code"), at),
                    };
                    out.push(escaped);
                    at += 2;
                }
                other => {
                    out.push(*other);
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        (Token::Text(out), start)
    }

    fn deeper(&self, depth: i64) -> mlua::Result<i64> {
        if depth < self.settings.decode_depth.min(DEPTH) {
            return Ok(depth + 1);
        }
        let (depth, at) = (depth + 1, self.at);
        let sentence = format!("Found too many nested data structures ({depth}) at character {at}");
        Err(fail(self.lua, &sentence))
    }

    fn value(&mut self, token: (Token, usize), depth: i64) -> mlua::Result<Value> {
        check_bytes(self.bounds, 0)?;
        match token.0 {
            Token::Text(text) => Ok(Value::String(self.lua.create_string(text)?)),
            Token::Number(number) => Ok(Value::Number(number)),
            Token::Word(value) => Ok(value),
            Token::Mark(b'{') => self.object(depth),
            Token::Mark(b'[') => self.array(depth),
            _ => Err(self.expected("value", &token)),
        }
    }

    fn object(&mut self, depth: i64) -> mlua::Result<Value> {
        let (depth, table) = (self.deeper(depth)?, self.lua.create_table()?);
        let mut token = self.token();
        if token.0 == Token::Mark(b'}') {
            return Ok(Value::Table(table));
        }
        loop {
            let Token::Text(name) = token.0 else {
                return Err(self.expected("object key string", &token));
            };
            let colon = self.token();
            if colon.0 != Token::Mark(b':') {
                return Err(self.expected("colon", &colon));
            }
            token = self.token();
            let value = self.value(token, depth)?;
            table.raw_set(self.lua.create_string(name)?, value)?;
            token = self.token();
            match token.0 {
                Token::Mark(b'}') => return Ok(Value::Table(table)),
                Token::Mark(b',') => token = self.token(),
                _ => return Err(self.expected("comma or object end", &token)),
            }
        }
    }

    fn array(&mut self, depth: i64) -> mlua::Result<Value> {
        let (depth, table) = (self.deeper(depth)?, self.lua.create_table()?);
        let mut token = self.token();
        if token.0 == Token::Mark(b']') {
            return Ok(Value::Table(table));
        }
        for at in 1_i64.. {
            let value = self.value(token, depth)?;
            table.raw_set(at, value)?;
            token = self.token();
            match token.0 {
                Token::Mark(b']') => break,
                Token::Mark(b',') => token = self.token(),
                _ => return Err(self.expected("comma or array end", &token)),
            }
        }
        Ok(Value::Table(table))
    }
}

/// Whether what begins here is a number that JSON has not.
fn is_invalid_number(text: &[u8]) -> bool {
    let text = match text {
        [b'+', ..] => return true,
        [b'-', rest @ ..] => rest,
        text => text,
    };
    let begins = |word: &[u8]| text.get(..3).is_some_and(|front| front.eq_ignore_ascii_case(word));
    match text {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        _ => begins(b"inf") || begins(b"nan"),
    }
}

/// The number that C's `strtod` reads at the front, and its bytes.
fn number_at(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let negative = text.first() == Some(&b'-');
    let signed = |number: f64| if negative { -number } else { number };
    let rest = &text[sign..];
    let begins =
        |word: &[u8]| rest.get(..word.len()).is_some_and(|front| front.eq_ignore_ascii_case(word));
    for (word, number) in
        [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)]
    {
        if begins(word) {
            return Some((signed(number), sign + word.len()));
        }
    }
    if begins(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
        let digits = rest[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let number = rest[2..2 + digits].iter().fold(0.0, |number, digit| {
            number * 16.0 + f64::from((*digit as char).to_digit(16).unwrap_or(0))
        });
        return Some((signed(number), sign + 2 + digits));
    }
    let digits =
        |from: usize| rest[from.min(rest.len())..].iter().take_while(|b| b.is_ascii_digit());
    let whole = digits(0).count();
    let mut end = whole;
    if rest.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1).count();
    }
    if whole == 0 && end <= 1 {
        return None;
    }
    if matches!(rest.get(end), Some(b'e' | b'E')) {
        let mark = usize::from(matches!(rest.get(end + 1), Some(b'+' | b'-')));
        let power = digits(end + 1 + mark).count();
        if power > 0 {
            end += 1 + mark + power;
        }
    }
    let number: f64 = str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
    Some((signed(number), sign + end))
}

/// The letter of a `\u`, as UTF-8, and the bytes that it was written with.
fn unicode(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let code = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let all = digits.iter().all(u8::is_ascii_hexdigit);
        all.then(|| u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()).flatten()
    };
    let (mut letter, mut bytes) = (code(0)?, 6);
    if letter & 0xf800 == 0xd800 {
        let second = code(6).filter(|low| low & 0xfc00 == 0xdc00 && letter & 0x400 == 0)?;
        letter = (letter & 0x3ff) << 10 | (second & 0x3ff);
        letter += 0x1_0000;
        bytes = 12;
    }
    let mut buffer = [0; 4];
    Some((char::from_u32(letter)?.encode_utf8(&mut buffer).as_bytes().to_vec(), bytes))
}
