//! `dunlin schema`

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use dunlin::{
    blobs, cluster,
    config::{BlobsEngine, DirectoryEngine},
    life,
};
use dunlin_cassandra::schema;

use super::{Configured, print, runtime};

#[derive(Subcommand)]
pub enum Schema {
    /// Make tables in Cassandra and PostgreSQL and the log's topic, or bring them to this version; repeatable
    Apply(Which),
    /// Whether they are there and as the configuration says
    Check(Which),
    /// What `apply` would say to an empty Cassandra, and to empty databases
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
            let of_cassandra = schema::statements(&cassandra).into_iter().map(|statement| format!("{statement};\n"));
            let of_postgres = dunlin_postgres::schema::statements().into_iter().map(|statement| format!("{statement}\n"));
            print(&of_cassandra.chain(of_postgres).collect::<String>())?;
            return Ok(ExitCode::SUCCESS);
        }
        ensure!(
            !config.is_embedded(),
            "engines.log is embedded: its data folder needs no schema. Name Kafka and Cassandra in the configuration"
        );
        let postgres = match config.engines.directory {
            DirectoryEngine::Sqlite => None,
            DirectoryEngine::Postgres => Some(cluster::postgres(&config)?),
        };
        runtime()?.block_on(async {
            if let Schema::Apply(_) = self {
                // Before anything is made anywhere.
                if let Some(postgres) = &postgres {
                    dunlin_postgres::schema::may_apply(postgres).await.context("the directory")?;
                }
                blobs::check(&config).await?;
                life::make(&config).await?;
                if let Some(postgres) = &postgres {
                    dunlin_postgres::schema::apply(postgres).await.context("the directory")?;
                }
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
            if let Some(postgres) = &postgres {
                dunlin_postgres::Directory::open(postgres).await.context("the directory")?;
                println!("{} databases with 64 shards have schema version {}", postgres.databases.len(), dunlin_postgres::schema::VERSION);
            }
            if config.engines.blobs == BlobsEngine::S3 {
                blobs::check(&config).await?;
                println!("bucket {} takes blobs", config.s3.bucket);
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}
