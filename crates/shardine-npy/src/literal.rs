//! The few Python literals that occur in `.npy` headers.

/// A Python literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    Integer(u64),
    Bool(bool),
    None,
    /// A list or a tuple.
    Sequence(Vec<Literal>),
    Dict(Vec<(String, Literal)>),
}

/// Deeper than any legitimate type.
const MAX_DEPTH: usize = 32;

/// Parses `text` as a single literal.
pub(super) fn parse(text: &str) -> Result<Literal, String> {
    let mut parser = Parser { rest: text };
    let literal = parser.literal(0)?;
    parser.skip_space();
    match parser.rest.chars().next() {
        None => Ok(literal),
        Some(c) => Err(format!("its header has {c:?} after the end")),
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Consumes `token` if it comes next.
    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn literal(&mut self, depth: usize) -> Result<Literal, String> {
        if depth > MAX_DEPTH {
            return Err("its header is nested too deeply".into());
        }
        self.skip_space();
        match self.rest.chars().next() {
            Some('{') => self.dict(depth),
            Some('(') => self.sequence("(", ")", depth),
            Some('[') => self.sequence("[", "]", depth),
            Some('\'' | '"') => Ok(Literal::Text(self.text()?)),
            Some('0'..='9') => self.integer(),
            _ if self.take("True") => Ok(Literal::Bool(true)),
            _ if self.take("False") => Ok(Literal::Bool(false)),
            _ if self.take("None") => Ok(Literal::None),
            Some(c) => Err(format!("its header has {c:?} where a value should be")),
            None => Err("its header ends too early".into()),
        }
    }

    fn sequence(&mut self, open: &str, close: &str, depth: usize) -> Result<Literal, String> {
        self.take(open);
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.literal(depth + 1)?);
            if !self.take(",") {
                if !self.take(close) {
                    return Err(format!("its header lacks a \"{close}\""));
                }
                // Parentheses around one value do not make a tuple.
                return match (open, items.len()) {
                    ("(", 1) => Ok(items.remove(0)),
                    _ => Ok(Literal::Sequence(items)),
                };
            }
        }
        Ok(Literal::Sequence(items))
    }

    fn dict(&mut self, depth: usize) -> Result<Literal, String> {
        self.take("{");
        let mut members = Vec::new();
        while !self.take("}") {
            self.skip_space();
            if !self.rest.starts_with(['\'', '"']) {
                return Err("its header has a key that is not a string".into());
            }
            let key = self.text()?;
            if !self.take(":") {
                return Err("its header lacks a \":\"".into());
            }
            members.push((key, self.literal(depth + 1)?));
            if !self.take(",") {
                if !self.take("}") {
                    return Err("its header lacks a \"}\"".into());
                }
                break;
            }
        }
        Ok(Literal::Dict(members))
    }

    fn integer(&mut self) -> Result<Literal, String> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        // Python 2 wrote its long integers with an L.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        number
            .parse()
            .map(Literal::Integer)
            .map_err(|_| "its header has a number that is too large".into())
    }

    fn text(&mut self) -> Result<String, String> {
        let quote = self.next();
        let mut text = String::new();
        loop {
            match self.next() {
                None | Some('\n') => return Err("its header has an unterminated string".into()),
                c if c == quote => return Ok(text),
                Some('\\') => text.push(self.escape()?),
                Some(c) => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let digits = match self.next() {
            Some(c @ ('\\' | '\'' | '"')) => return Ok(c),
            Some('n') => return Ok('\n'),
            Some('r') => return Ok('\r'),
            Some('t') => return Ok('\t'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err("its header has an unknown escape".into()),
        };
        let code =
            self.rest.get(..digits).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let c = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        self.rest = self.rest.get(digits..).unwrap_or_default();
        c.ok_or_else(|| "its header has an escape that is not a character".into())
    }
}
