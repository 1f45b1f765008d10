//! Pages made from the words of the command line: completions for shells, and the manual.

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
    /// For which shell.
    shell: Shell,
}

pub(crate) fn completions(args: &Completions, mut command: Command) -> Result<u8, Failure> {
    let mut page = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tenure", &mut page);
    answer(page)?;
    Ok(0)
}

/// One page with every command, because one page is what people search.
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

const TWO_WORDS: &str = "<\\fIKEY\\fR> <\\fICMD\\fR>";
const COMMAND_BEHIND: &str = "<\\fIKEY\\fR> \\-\\- <\\fICMD\\fR>...";

/// The generator names pages that are not made, leaves out the `--` before a command, and lets lines that are laid out by
/// hand flow together.
fn as_one_page(page: &str) -> String {
    let mut by_hand = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if by_hand && line.starts_with(".SH") {
            lines.push(".fi".to_owned());
            by_hand = false;
        }
        match line.strip_prefix("tenure\\-").and_then(|rest| rest.strip_suffix("(1)")) {
            _ if line == ".SH EXTRA" => {
                lines.extend([".SH MORE".to_owned(), ".nf".to_owned()]);
                by_hand = true;
            }
            Some(name) => lines.push(format!("\\fBtenure {name}\\fR")),
            None => lines.push(line.replace(TWO_WORDS, COMMAND_BEHIND)),
        }
    }
    if by_hand {
        lines.push(".fi".to_owned());
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_laid_out_by_hand_stays_so() {
        let page = ".SH EXTRA\n  64  no sense\n  75  busy\n.SH NAME\ntenure\\-run(1)\n.SH EXTRA\nExample:\n";
        let shown = ".SH MORE\n.nf\n  64  no sense\n  75  busy\n.fi\n.SH NAME\n\\fBtenure run\\fR\n\
                     .SH MORE\n.nf\nExample:\n.fi\n";
        assert_eq!(as_one_page(page), shown);
    }
}
