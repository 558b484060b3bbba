//! Reports sockets that do not answer: one line for each reason, because any process on the node can create names.

use std::collections::BTreeMap;
use std::io;

/// Writes the sockets that have not answered, and the reasons, to standard error.
pub fn complain(unanswered: &[(String, io::Error)]) {
    for line in lines(unanswered) {
        eprintln!("ringwatch: {line}");
    }
}

fn lines(unanswered: &[(String, io::Error)]) -> Vec<String> {
    let mut names_by_reason: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, error) in unanswered {
        names_by_reason.entry(error.to_string()).or_default().push(name);
    }
    let line = |(reason, names): (String, Vec<&str>)| match names[..] {
        [name] => format!("no answer from {name}: {reason}."),
        [first, ..] => format!("no answer from {} sockets, such as {first}: {reason}.", names.len()),
        [] => unreachable!("a reason has a name"),
    };
    names_by_reason.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_line_for_each_reason() {
        let error = io::Error::other;
        let mut all: Vec<_> = (0..800)
            .map(|number| (format!("ringwatch/0/x/{number}"), error("the socket belongs to another user")))
            .collect();
        all.push(("ringwatch/0/job/1".into(), error("it does not answer in time")));
        assert_eq!(
            lines(&all),
            [
                "no answer from ringwatch/0/job/1: it does not answer in time.",
                "no answer from 800 sockets, such as ringwatch/0/x/0: the socket belongs to another user.",
            ]
        );
        assert!(lines(&[]).is_empty());
    }
}
