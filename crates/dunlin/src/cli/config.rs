//! `dunlin config`

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::Configured;

#[derive(Subcommand)]
pub enum Config {
    /// Print the configuration that a server started here would have; without overrides, with a comment on every key
    Print(Choice),
    /// Say whether the configuration is right
    Check(Choice),
}

#[derive(Args)]
pub struct Choice {
    #[command(flatten)]
    configured: Configured,
}

impl Config {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Config::Print(choice) => {
                let (_, table) = choice.configured.load(Vec::new())?;
                let is_default = dunlin::config::DEFAULT.parse::<toml::Table>().is_ok_and(|default| default == table);
                match is_default {
                    true => print!("{}", dunlin::config::DEFAULT),
                    false => print!("{table}"),
                }
            }
            Config::Check(choice) => {
                choice.configured.load(Vec::new())?;
                println!("the configuration is right");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
