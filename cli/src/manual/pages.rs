//! All manual pages. Those of commands are made of their command lines; those of C functions are kept beside the
//! header.

use std::io;

use clap::Command;
use clap_mangen::Man;
use node_abi::versions::RELEASE;

use super::parameters;

/// One page.
pub struct Page {
    /// What it is called by.
    pub name: String,
    /// Section of the manual.
    pub section: u8,
    /// Its source for troff.
    pub text: Vec<u8>,
}

/// The page of the C functions that share one text.
const ISHRINK: &str = include_str!("../../../ishrink/man/MPIX_Comm_ishrink.3");
const ISPAWN: &str = include_str!("../../../ishrink/man/MPIX_Comm_ispawn.3");
const GROUP: &str = include_str!("../../../ishrink/man/RW_Group_join.3");
/// A page that only names that one.
const SEE_GROUP: &str = ".so man3/RW_Group_join.3\n";

/// Functions, and the text of each.
const FUNCTIONS: [(&str, &str); 13] = [
    ("MPIX_Comm_ishrink", ISHRINK),
    ("MPIX_Comm_ispawn", ISPAWN),
    ("MPIX_Comm_iaccept", ".so man3/MPIX_Comm_ispawn.3\n"),
    ("MPIX_Comm_iconnect", ".so man3/MPIX_Comm_ispawn.3\n"),
    ("RW_Group_join", GROUP),
    ("RW_Group_set_test", SEE_GROUP),
    ("RW_Group_barrier", SEE_GROUP),
    ("RW_Group_members", SEE_GROUP),
    ("RW_Group_round", SEE_GROUP),
    ("RW_Group_returned", SEE_GROUP),
    ("RW_Group_lost", SEE_GROUP),
    ("RW_Group_state", SEE_GROUP),
    ("RW_Group_leave", SEE_GROUP),
];

/// The page of the daemon, which reads its command line without clap.
const DAEMON: &str = include_str!("ringwatchd.8");

/// All pages of the command line `command` and of what is installed with it.
///
/// # Errors
/// If a page cannot be made.
pub fn of(command: Command) -> io::Result<Vec<Page>> {
    let mut command = command.disable_help_subcommand(true);
    // Gives each its name with that of the program.
    command.build();
    let mut pages = vec![of_command(&command)?];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        pages.push(of_command(sub)?);
    }
    for (name, text) in FUNCTIONS {
        pages.push(Page { name: name.into(), section: 3, text: text.into() });
    }
    pages.push(Page { name: "ringwatch-parameters".into(), section: 7, text: parameters::page()? });
    pages.push(Page { name: "ringwatchd".into(), section: 8, text: DAEMON.into() });
    Ok(pages)
}

fn of_command(command: &Command) -> io::Result<Page> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    Man::new(command.clone()).source(format!("ringwatch {RELEASE}")).manual("ringwatch").date(" ").render(&mut text)?;
    Ok(Page { name, section: 1, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Whitespace is one blank.
    fn plain(text: &str) -> String {
        text.replace("\\-", "-").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_function_of_the_header_has_a_page_with_its_prototype() {
        let header = include_str!("../../../ishrink/include/ringwatch.h");
        let all = plain(&[ISHRINK, ISPAWN, GROUP].concat());
        let mut named = BTreeSet::new();
        let header = plain(header);
        let of_family = |text: &str, family: &str| Some(format!("{family}{}", text.split_once(family)?.1));
        let families = ["int MPIX_", "int RW_Group_"];
        for prototype in header.split(';').filter_map(|text| families.iter().find_map(|one| of_family(text, one))) {
            assert!(all.contains(&format!("{prototype};")), "{prototype}");
            named.insert(prototype.split(['(', ' ']).nth(1).unwrap().to_owned());
        }
        assert_eq!(named, FUNCTIONS.map(|(name, _)| name.to_owned()).into());
    }
}
