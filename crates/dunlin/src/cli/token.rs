//! `dunlin token`

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, ensure};
use clap::Args;
use dunlin::secrets;
use dunlin_api::auth::Verifier;
use dunlin_embedded::SystemClock;
use dunlin_model::UserId;
use dunlin_ports::Clock as _;

use super::Configured;

#[derive(Args)]
pub struct Token {
    /// The user's id; who is not there yet is created when the token is first used
    #[arg(value_name = "USER")]
    user: String,
    #[command(flatten)]
    configured: Configured,
    /// How long it is good: seconds, or with s, m, h or d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    ttl: Duration,
}

impl Token {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (config, _) = self.configured.load(Vec::new())?;
        ensure!(config.auth.hs256, "auth.hs256 is off: the host application signs its users' tokens itself");
        let user = UserId::parse(&self.user).with_context(|| format!("{:?} is no user id", self.user))?;
        let path = secrets::secret_path(&config.auth.secret_file, &config.server.data);
        let secret = secrets::read_secret(&path).context("is there a data folder? `dunlin serve` makes one")?;
        let minted = Verifier::new(Some(&secret), None, config.auth.audience).mint(&user, self.ttl, SystemClock.now());
        println!("{}", minted.context("failed to sign")?.token);
        Ok(ExitCode::SUCCESS)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        _ => return Err("must be a number of seconds, or with s, m, h or d: 90s, 15m, 1h, 7d".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "must begin with a number".to_owned())?;
    match number.checked_mul(seconds) {
        Some(total @ 1..=315_360_000) => Ok(Duration::from_secs(total)),
        _ => Err("must be 1 s to 10 years".to_owned()),
    }
}
