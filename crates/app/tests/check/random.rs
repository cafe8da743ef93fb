//! Whatever happens among a few users, allowed or not, the projector leaves a clean store.

use dunlin_app::check::{Options, check};
use dunlin_model::{
    Block, Body, ClientId, Content, ConversationId, Delete, Edit, Emoji, Hide, Opening, Pair, React, Seq, UserId, VisibilityChange,
};
use proptest::{collection, prelude::*};

use crate::world::World;

#[derive(Clone, Debug)]
struct Step {
    /// The pair and the actor, who need not belong to it.
    users: (usize, usize, usize),
    what: usize,
    /// Which of the earlier messages, counted back; and which client id.
    which: usize,
    on: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let users = (0..3usize, 0..3usize, 0..4usize);
    (users, 0..16usize, 0..12usize, any::<bool>()).prop_map(|(users, what, which, on)| Step { users, what, which, on })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_run_of_events_is_clean(steps in collection::vec(step(), 1..200)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let report = runtime.block_on(async {
            let mut world = World::new().await;
            let mut said = vec![Seq::ZERO];
            for step in &steps {
                take(&mut world, step, &mut said).await;
            }
            world.flush().await;
            check(&world.store, Options::default(), &mut |_| {}).await.unwrap()
        });
        prop_assert!(report.is_clean(), "{}", report);
    }
}

async fn take(world: &mut World, step: &Step, said: &mut Vec<Seq>) {
    let users = ["ann", "bob", "cem", "dot"].map(|name| UserId::parse(name).unwrap());
    let (one, other, actor) = step.users;
    let pair = Pair::new(users[one].clone(), users[other].clone());
    let actor = &users[actor];
    let conversation = ConversationId::direct(&pair);
    let target = said[said.len().saturating_sub(1 + step.which)];
    let content = Content::text(&format!("edit {}", step.which)).unwrap();
    let body = match step.what {
        0 => Body::Open(Opening::Direct(pair.clone())),
        1 => Body::Edit(Edit { conversation, target, content }),
        2 | 3 => Body::Delete(Delete { conversation, target }),
        4 => Body::Hide(Hide { conversation, target }),
        5 => Body::React(React { conversation, target, emoji: Emoji::parse("+").unwrap(), on: step.on }),
        6 => return world.read(actor, &pair, target).await,
        7 => return world.visibility(actor, &pair, VisibilityChange::Archive).await,
        8 => return world.visibility(actor, &pair, VisibilityChange::Activate).await,
        9 => return world.visibility(actor, &pair, VisibilityChange::Delete).await,
        10 => Body::Block(Block { pair: pair.clone(), on: step.on && step.which == 0 }),
        11 => return said.push(world.say(None, &pair, "system", "news").await),
        12 => {
            let client_id = ClientId::parse(&format!("again {}", step.which)).unwrap();
            return said.push(world.say_as(Some(actor), &pair, "text", if step.on { "yes" } else { "no" }, client_id).await);
        }
        _ => return said.push(world.say(Some(actor), &pair, "text", "hello").await),
    };
    world.event(Some(actor), &pair, body).await;
}
