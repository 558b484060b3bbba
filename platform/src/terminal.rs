//! Text from files and from other nodes that acts on no terminal: no I/O.

use std::fmt::Write as _;

/// The text with its control characters written as in JSON (`\u001b`), but for the ends of lines. JSON stays what it
/// was.
#[must_use]
pub fn text(text: &str) -> String {
    escape(text, |c| c.is_control() && c != '\n')
}

/// One line with its end: the text with all its control characters written as in JSON.
#[must_use]
pub fn line(text: &str) -> String {
    escape(text, char::is_control) + "\n"
}

fn escape(text: &str, acts: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        if acts(c) {
            write!(safe, "\\u{:04x}", u32::from(c)).expect("writing to memory cannot fail");
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal_and_nothing_makes_a_second_line() {
        assert_eq!(text("a\x1b[2Jb\n\u{9b}31mc\x7f\r"), "a\\u001b[2Jb\n\\u009b31mc\\u007f\\u000d");
        assert_eq!(line("a\nb"), "a\\u000ab\n");
        assert_eq!(text("prterun-größe@1\n"), "prterun-größe@1\n");
    }

    #[test]
    fn json_stays_what_it_was() {
        let strange: String = (0..0x100).filter_map(char::from_u32).collect();
        let safe = text(&serde_json::to_string(&strange).unwrap());
        assert!(!safe.contains(char::is_control));
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), strange);
    }
}
