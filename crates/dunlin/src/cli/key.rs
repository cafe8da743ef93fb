//! `dunlin key`

use std::{process::ExitCode, sync::Arc};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use dunlin::{cluster, config::DirectoryEngine, secrets};
use dunlin_embedded::{RandomIds, SystemClock};
use dunlin_model::{Name, Scope, ServerKeyId};
use dunlin_ports::{Clock as _, Directory};

use super::{Configured, runtime};

#[derive(Subcommand)]
pub enum Key {
    /// Make a key; it is printed once and kept nowhere
    New(New),
    /// List the keys, also revoked ones
    List(List),
    /// Revoke a key for good
    Revoke(Revoke),
}

#[derive(Args)]
pub struct New {
    #[command(flatten)]
    configured: Configured,
    /// What it is for
    #[arg(long, value_name = "NAME", default_value = "server key")]
    name: String,
    /// What it is good for: act (for a user), users (create and change them, their tokens), metrics
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', default_value = "act,users", value_parser = scope)]
    scopes: Vec<Scope>,
}

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    configured: Configured,
}

#[derive(Args)]
pub struct Revoke {
    #[command(flatten)]
    configured: Configured,
    /// The key's id: what stands between dk_ and the next _
    #[arg(value_name = "ID")]
    id: String,
}

fn scope(text: &str) -> Result<Scope, String> {
    text.parse().map_err(|_| format!("must be one of {}", Scope::ALL.map(Scope::as_str).join(", ")))
}

impl Key {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        runtime()?.block_on(async {
            match self {
                Key::New(new) => new.run().await,
                Key::List(list) => list.run().await,
                Key::Revoke(revoke) => revoke.run().await,
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// SQLite lets several processes in, as PostgreSQL does, so the server may go on.
async fn directory(configured: &Configured) -> anyhow::Result<Arc<dyn Directory>> {
    let (config, _) = configured.load(Vec::new())?;
    let data = &config.server.data;
    let is_there = config.engines.directory == DirectoryEngine::Postgres || data.join("directory.sqlite").exists();
    ensure!(is_there, "{} is not a data folder of dunlin; `dunlin serve` makes one", data.display());
    cluster::directory(&config).await
}

impl New {
    async fn run(self) -> anyhow::Result<()> {
        let directory = directory(&self.configured).await?;
        let name = Name::parse(&self.name).context("the name is wrong")?;
        let (key, shown) = secrets::make_key(&*directory, &RandomIds, name, self.scopes, SystemClock.now()).await?;
        eprintln!("made the server key {}; it is shown only now:", key.id);
        println!("{shown}");
        Ok(())
    }
}

impl List {
    async fn run(self) -> anyhow::Result<()> {
        const PAGE: usize = 100;
        let directory = directory(&self.configured).await?;
        let mut after = None;
        println!("{:<10} {:<9} {:<24} {:<24} name", "id", "state", "made", "scopes");
        loop {
            let keys = directory.server_keys(after.as_ref(), PAGE).await?;
            for key in &keys {
                let state = if key.revoked_at.is_some() { "revoked" } else { "good" };
                let scopes = key.scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",");
                let made = dunlin_protocol::Time(key.created_at).to_string();
                println!("{:<10} {state:<9} {made:<24} {scopes:<24} {}", key.id.as_str(), key.name);
            }
            after = keys.last().map(|key| key.id.clone());
            if keys.len() < PAGE {
                return Ok(());
            }
        }
    }
}

impl Revoke {
    async fn run(self) -> anyhow::Result<()> {
        let directory = directory(&self.configured).await?;
        let id = ServerKeyId::parse(self.id.strip_prefix("dk_").unwrap_or(&self.id))
            .context("this is no id of a key; `dunlin key list` shows them")?;
        match directory.revoke_server_key(&id, SystemClock.now()).await? {
            Some(key) => println!("revoked {} ({}); running servers hear of it within seconds", key.id, key.name),
            None => bail!("there is no server key {id}; `dunlin key list` shows them"),
        }
        Ok(())
    }
}
