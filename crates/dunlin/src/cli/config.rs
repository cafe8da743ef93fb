//! `dunlin config`

use std::{path::Path, process::ExitCode};

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};

use super::{Configured, print};

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
                    true => print(dunlin::config::DEFAULT)?,
                    false => print(&table.to_string())?,
                }
            }
            Config::Check(choice) => {
                let (config, _) = choice.configured.load(Vec::new())?;
                if config.auth.hs256 && !config.auth.secret_file.as_os_str().is_empty() {
                    dunlin::secrets::read_secret(&config.auth.secret_file).context("auth.secret_file")?;
                }
                dunlin::cluster::check_files(&config)?;
                let (jwks, is_url) = (&config.auth.jwks, config.auth.jwks.contains("://"));
                ensure!(jwks.is_empty() || is_url || Path::new(jwks).is_file(), "auth.jwks: there is no file {jwks}");
                println!("the configuration is right");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
