//! Makes the population: users in the directory, and every conversation open with its first message.

use std::{sync::Arc, time::Instant};

use anyhow::{Result, ensure};
use dunlin_app::App;
use dunlin_model::UserChange;

use crate::{
    Ledger, People, Progress, closed,
    report::Setup,
    sends::{Aim, Pace, Sends},
};

/// Opening asks the directory, whose queue is bounded.
const OPENERS: usize = 64;

pub async fn prepare(app: &App, people: &Arc<People>, ledger: &mut Ledger, progress: &Progress) -> Result<Setup> {
    let begun = Instant::now();
    let mut users = 0;
    for user in people.everyone() {
        app.directory.upsert_user(user, UserChange::default(), app.clock.now()).await?;
        users += 1;
        if users % 100 == 0 {
            progress.say(&format!("{users} users"));
        }
    }
    let users_s = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let openings = people.openings();
    let messages = openings.len() as u64;
    let mut shares = vec![Vec::new(); OPENERS];
    openings.into_iter().enumerate().for_each(|(number, pair)| shares[number % OPENERS].push(pair));
    let mut sends = Sends::new(app, people, ledger, Pace::WhenVisible, shares.into_iter().map(Aim::These));
    let driven = closed(sends.take(), None).await?;
    let sent = sends.done(driven.lanes, ledger).await?;
    ensure!(sent.acked == messages, "only {} of {messages} first messages were acknowledged", sent.acked);
    Ok(Setup { users, users_s, opening_messages: messages, openings_s: begun.elapsed().as_secs_f64() })
}
