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

/// The generator names pages that are not made, and leaves out the `--` before a command.
fn as_one_page(page: &str) -> String {
    let line =
        |line: &str| match line.strip_prefix("tenure\\-").and_then(|rest| rest.strip_suffix("(1)"))
        {
            Some(name) => format!("\\fBtenure {name}\\fR\n"),
            None => {
                line.replace("<\\fIKEY\\fR> <\\fICMD\\fR>", "<\\fIKEY\\fR> \\-\\- <\\fICMD\\fR>...")
                    + "\n"
            }
        };
    page.lines().map(line).collect()
}
