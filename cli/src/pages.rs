//! Pages made from the command line's definition: completions for shells, and the manual.

use std::io::Write as _;

use clap::Command;
use clap_complete::Shell;

use crate::failure::{Failure, answer};

/// Prints the completions for a shell.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish")]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

pub(crate) fn completions(args: &Completions, mut command: Command) -> Result<u8, Failure> {
    let mut page = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tenure", &mut page);
    answer(page)?;
    Ok(0)
}

/// Prints one page with all subcommands, so that users can search it.
pub(crate) fn man(command: Command) -> Result<u8, Failure> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        writeln!(page, ".SH \"TENURE {}\"", sub.get_name().to_uppercase())?;
        let man = clap_mangen::Man::new(sub.clone());
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    answer(as_one_page(&String::from_utf8_lossy(&page)))?;
    Ok(0)
}

const WITHOUT_DASHES: &str = "<\\fIKEY\\fR> <\\fICMD\\fR>";
const WITH_DASHES: &str = "<\\fIKEY\\fR> \\-\\- <\\fICMD\\fR>...";

/// Repairs the generated page. The generator refers to pages that do not exist, leaves out the `--`
/// before a command, and joins the lines of examples.
fn as_one_page(page: &str) -> String {
    let mut in_example = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if in_example && line.starts_with(".SH") {
            lines.push(".fi".to_owned());
            in_example = false;
        }
        match line.strip_prefix("tenure\\-").and_then(|rest| rest.strip_suffix("(1)")) {
            _ if line == ".SH EXTRA" => {
                lines.extend([".SH MORE".to_owned(), ".nf".to_owned()]);
                in_example = true;
            }
            Some(name) => lines.push(format!("\\fBtenure {name}\\fR")),
            None => lines.push(line.replace(WITHOUT_DASHES, WITH_DASHES)),
        }
    }
    if in_example {
        lines.push(".fi".to_owned());
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines() {
        let page = ".SH EXTRA\n  64  no sense\n  75  busy\n.SH NAME\ntenure\\-run(1)\n.SH EXTRA\nExample:\n";
        let shown = ".SH MORE\n.nf\n  64  no sense\n  75  busy\n.fi\n.SH NAME\n\\fBtenure run\\fR\n\
                     .SH MORE\n.nf\nExample:\n.fi\n";
        assert_eq!(as_one_page(page), shown);
    }
}
