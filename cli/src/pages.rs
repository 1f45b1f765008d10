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
    let whole = clap_mangen::Man::new(command.clone());
    whole.render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        writeln!(page, ".SH \"TENURE {}\"", sub.get_name().to_uppercase())?;
        let man = clap_mangen::Man::new(sub.clone());
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
        man.render_extra_section(&mut page)?;
    }
    answer(page)?;
    Ok(0)
}
