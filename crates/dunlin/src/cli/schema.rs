//! `dunlin schema`

use std::process::ExitCode;

use anyhow::ensure;
use clap::{Args, Subcommand};
use dunlin::{cluster, life};
use dunlin_cassandra::schema;

use super::{Configured, runtime};

#[derive(Subcommand)]
pub enum Schema {
    /// Make the keyspace, its tables and the log's topic, or bring them to this version; repeatable
    Apply(Which),
    /// Whether they are there and as the configuration says
    Check(Which),
    /// What `apply` would say to an empty Cassandra
    Print(Which),
}

#[derive(Args)]
pub struct Which {
    #[command(flatten)]
    configured: Configured,
}

impl Schema {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (Schema::Apply(Which { configured }) | Schema::Check(Which { configured }) | Schema::Print(Which { configured })) = &self;
        let (config, _) = configured.load(Vec::new())?;
        let (cassandra, kafka) = (cluster::cassandra(&config)?, cluster::kafka(&config)?);
        if let Schema::Print(_) = self {
            for statement in schema::statements(&cassandra) {
                println!("{statement};");
            }
            return Ok(ExitCode::SUCCESS);
        }
        ensure!(
            !config.is_embedded(),
            "engines.log is embedded: its data folder needs no schema. Name Kafka and Cassandra in the configuration"
        );
        runtime()?.block_on(async {
            if let Schema::Apply(_) = self {
                life::make(&config).await?;
            } else {
                life::open(&config).await?;
            }
            println!(
                "keyspace {} has schema version {}; topic {} has {} partitions",
                cassandra.keyspace,
                schema::VERSION,
                kafka.topic,
                kafka.partitions
            );
            Ok(ExitCode::SUCCESS)
        })
    }
}
