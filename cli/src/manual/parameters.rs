//! `ringwatch-parameters(7)`, from the tables of which the plugin and the components of the ranks register them.

use std::io;

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use node_abi::versions::RELEASE;
use node_abi::{parameters, rank_parameters};

/// The page.
///
/// # Errors
/// If it cannot be made.
pub fn page() -> io::Result<Vec<u8>> {
    let mut page = Roff::new();
    let source = format!("ringwatch {RELEASE}");
    page.control("TH", ["ringwatch-parameters", "7", " ", &source, "ringwatch"]);
    page.control("SH", ["NAME"]);
    page.text([roman("ringwatch-parameters - what can be set of fault tolerance with ringwatch")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman("The parameters of PMIx are set with "),
        bold("mpirun --pmixmca"),
        roman(", in the environment, where their names begin with PMIX_MCA_, or by a line "),
        italic("name"),
        roman(" = "),
        italic("value"),
        roman(" in pmix-mca-params.conf. They are read where mpirun runs and hold on every node. "),
        roman("A value out of range and a name that is misspelt stop the launch with status 2."),
    ]);
    page.control("SH", ["PARAMETERS OF PMIX"]);
    for one in parameters::DEFINITIONS {
        entry(&mut page, &format!("psensor_ringwatch_{}", one.name), one.default, one.help);
    }
    page.control("SH", ["PARAMETERS OF OPEN MPI"]);
    page.text([
        roman("These are set with "),
        bold("mpirun --mca"),
        roman(", or in the environment, where their names begin with OMPI_MCA_."),
    ]);
    for one in rank_parameters::DEFINITIONS {
        let name = format!("{}_{}", one.component, one.name.to_string_lossy());
        entry(&mut page, &name, one.default, &one.help.to_string_lossy());
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("ringwatch"), roman("(1), "), bold("pmix_info"), roman("(1), "), bold("mpirun"), roman("(1)")]);
    let mut text = Vec::new();
    page.to_writer(&mut text)?;
    Ok(text)
}

fn entry(page: &mut Roff, name: &str, default: &str, help: &str) {
    let default: Inline = if default.is_empty() { roman("") } else { roman(format!(" [default: {default}]")) };
    page.control("TP", []);
    page.text([bold(name), default]);
    page.text([roman(format!("{help}."))]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_an_entry_of_the_page() {
        let text = String::from_utf8(page().unwrap()).unwrap().replace("\\-", "-");
        assert_eq!(text.matches("\n.TP").count(), parameters::DEFINITIONS.len() + rank_parameters::DEFINITIONS.len());
        assert!(text.contains("psensor_ringwatch_timeout") && text.contains("hook_ringwatch_spares"));
    }
}
