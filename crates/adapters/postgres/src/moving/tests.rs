//! A move that breaks off, is taken back, or goes on under load: on a real PostgreSQL.

use std::sync::atomic::{AtomicBool, Ordering};

use dunlin_contract::ids;
use dunlin_model::{BlockRow, Field, Lease, Millis, Name, NodeId, SecretHash, Seq, ServerKey, ServerKeyId, TaskName, UserChange, UserId};
use dunlin_ports::{Directory as _, StoreError};

use tokio::time::Instant;
use tokio_postgres::types::Type;

use super::{under_way::far_off, *};
use crate::{Directory, support};

fn seven() -> Shard {
    Shard::numbered(7).expect("there are 64")
}

fn user_of(shard: Shard) -> UserId {
    std::iter::repeat_with(ids::user).find(|id| Shard::of(id.as_str()) == shard).expect("ids are random")
}

fn named(name: &str) -> UserChange {
    UserChange { display_name: Field::Set(Name::parse(name).expect("a name")), ..UserChange::default() }
}

/// All shards in `a`, none in `b`.
async fn two_databases() -> Options {
    let options = support::options(&[("a", "0-63"), ("b", "")]).await;
    schema::apply(&options).await.expect("apply the schema");
    Options { call_timeout: PATIENCE, ..options }
}

/// For calls that have to succeed, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whoever moved the shard before may take a moment to be gone.
async fn moved(shards: &Shards, to: &str) {
    for _ in 0..50 {
        match shards.move_to(seven(), to, |_| {}).await {
            Ok(()) => return,
            Err(MoveError::Busy(_)) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("someone else moves it for ever");
}

async fn holds(options: &Options, database: usize, sql: &str) -> bool {
    let client = support::connect(&options.databases[database].url).await;
    client.query(sql, &[]).await.is_ok_and(|rows| !rows.is_empty())
}

#[tokio::test]
async fn a_move_that_breaks_off_anywhere_is_read_throughout_and_goes_on_when_asked_again() {
    let steps = [Step::Follow, Step::Copy, Step::Freeze, Step::Finish, Step::Leave, Step::Arrive, Step::Clear, Step::Done];
    let is_paused = |step: &Step| [Step::Freeze, Step::Finish, Step::Leave].contains(step);
    let is_here = |text: &String| Shard::of(text) == seven();
    for made in 0..=steps.len() {
        let options = two_databases().await;
        // It gives up soon what can't be served.
        let hasty = support::open(&Options { call_timeout: Duration::from_millis(300), ..options.clone() }).await;
        let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
        let id = user_of(seven());
        let task = TaskName::parse(&std::iter::repeat_with(ids::hex).find(is_here).unwrap()).unwrap();
        let lease = Lease { holder: NodeId(3), until: Millis(100) };
        directory.take_task(&task, lease, Millis(0)).await.unwrap();
        let mut user = directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
        let mut others = Vec::new();

        let moving = Move::begin(&shards, seven(), "b").await.unwrap().unwrap();
        for step in &steps[..made] {
            assert_eq!(moving.step().await.unwrap(), *step);
            assert_eq!(directory.user(&id).await.unwrap().as_ref(), Some(&user), "after {step:?}");
            assert_eq!(support::open(&options).await.user(&id).await.unwrap().as_ref(), Some(&user), "a node that starts now");
            let change = named(&format!("Ann after {step:?}"));
            if is_paused(step) {
                assert!(matches!(hasty.upsert_user(&id, change, Millis(6)).await, Err(StoreError::Unavailable(_))), "{step:?}");
                continue;
            }
            user = directory.upsert_user(&id, change, Millis(6)).await.unwrap();
            others.push(user_of(seven()));
            directory.upsert_user(others.last().unwrap(), UserChange::default(), Millis(6)).await.unwrap();
            directory.release_task(&task, lease.holder).await.unwrap();
        }
        drop(moving); // as if the process had died

        moved(&shards, "b").await;
        assert_eq!(directory.user(&id).await.unwrap().as_ref(), Some(&user), "after {made} steps and the rest");
        assert_eq!(directory.exist(&others).await.unwrap(), vec![true; others.len()]);
        let other_lease = Lease { holder: NodeId(4), ..lease };
        let holder = directory.take_task(&task, other_lease, Millis(1)).await.unwrap().holder;
        assert_eq!(holder == lease.holder, others.is_empty(), "what was deleted stays so");
        let written = directory.upsert_user(&id, named("Anne"), Millis(7)).await.unwrap();
        assert_eq!(directory.user(&id).await.unwrap(), Some(written));
        assert!(holds(&options, 1, &format!("SELECT id FROM dunlin_shard_07.users WHERE id = '{id}'")).await);
        assert!(!holds(&options, 0, "SELECT 1 FROM information_schema.schemata WHERE schema_name = 'dunlin_shard_07'").await);
        moved(&shards, "b").await; // there is nothing left to do
    }
}

#[tokio::test]
async fn a_write_under_way_is_waited_for_and_comes_along() {
    let options = two_databases().await;
    let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
    let id = user_of(seven());
    let work = directory.router.begin(seven(), far_off()).await.unwrap();
    let insert = "INSERT INTO users (id, created_at, updated_at) VALUES ($1, 5, 5)";
    work.query(insert, &[(&id.as_str(), Type::TEXT)]).await.unwrap();
    let commit = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        work.commit().await.unwrap();
        Instant::now()
    };
    let moving = async {
        moved(&shards, "b").await;
        Instant::now()
    };
    let (committed_at, moved_at) = tokio::join!(commit, moving);
    assert!(moved_at > committed_at);
    assert_eq!(directory.user(&id).await.unwrap().map(|user| user.id), Some(id));
}

/// Nobody restarted it when the database was added.
#[tokio::test]
async fn a_node_that_does_not_know_the_database_of_a_shard_says_so() {
    let options = two_databases().await;
    let alone = Options { databases: options.databases[..1].to_vec(), call_timeout: Duration::from_secs(2), ..options.clone() };
    let (directory, shards) = (support::open(&alone).await, Shards::open(&options).await.unwrap());
    assert_eq!(directory.troubles(), Vec::<String>::new());
    moved(&shards, "b").await;
    assert!(directory.user(&user_of(seven())).await.is_err());
    assert!(directory.troubles()[0].contains("these shards are in none of the PostgreSQL databases: 7"), "{:?}", directory.troubles());
    moved(&shards, "a").await;
    assert_eq!(directory.user(&user_of(seven())).await.unwrap(), None);
    directory.router.look(Instant::now() + Duration::from_secs(5)).await;
    assert_eq!(directory.troubles(), Vec::<String>::new());
}

#[tokio::test]
async fn everything_of_a_shard_comes_along_and_back() {
    let options = two_databases().await;
    let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
    let (id, other) = (user_of(seven()), ids::user());
    directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
    let user = directory.set_phone(&id, Some(&ids::phone()), Millis(6)).await.unwrap();
    directory.revoke_tokens(&id, Millis(7)).await.unwrap();
    let at = Seq::from_u64(9).unwrap();
    let block = BlockRow { blocker: id.clone(), blocked: other, at, since: Millis(8), on: true };
    directory.copy_block(&block).await.unwrap();
    let is_here = |text: &String| Shard::of(text) == seven();
    let task = TaskName::parse(&std::iter::repeat_with(ids::hex).find(is_here).unwrap()).unwrap();
    let lease = Lease { holder: NodeId(3), until: Millis(100) };
    directory.take_task(&task, lease, Millis(9)).await.unwrap();
    let key = ServerKey {
        id: ServerKeyId::parse(&std::iter::repeat_with(ids::hex).find(is_here).unwrap()).unwrap(),
        name: Name::parse("shop").unwrap(),
        scopes: Default::default(),
        secret_hash: SecretHash([7; 32]),
        created_at: Millis(1),
        revoked_at: None,
    };
    directory.create_server_key(&key).await.unwrap();
    for to in ["b", "a", "b"] {
        moved(&shards, to).await;
        assert_eq!(directory.user(&id).await.unwrap(), user);
        assert_eq!(directory.tokens_valid_from(&id).await.unwrap(), Some(Millis(7)));
        assert_eq!(directory.blocks_copied(&id, None, 9).await.unwrap(), std::slice::from_ref(&block));
        let taken = directory.take_task(&task, Lease { holder: NodeId(4), ..lease }, Millis(50)).await.unwrap();
        assert_eq!(taken, lease);
        assert_eq!(directory.server_key(&key.id).await.unwrap().as_ref(), Some(&key));
    }
    let (resting, others) = shards.list().await.unwrap();
    assert_eq!(resting[1].1.to_string(), "7");
    assert!(others.iter().any(|placed| placed.database == "a" && placed.phase == "moved"));
}

#[tokio::test]
async fn a_shard_can_be_taken_back_and_its_old_copy_is_forgotten() {
    for steps in [1, 2, 3, 4] {
        let options = two_databases().await;
        let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
        let id = user_of(seven());
        directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
        let moving = Move::begin(&shards, seven(), "b").await.unwrap().unwrap();
        for _ in 0..steps {
            moving.step().await.unwrap();
        }
        assert!(matches!(shards.move_to(seven(), "b", |_| {}).await, Err(MoveError::Busy(_))), "one at a time");
        moving.end().await;
        moved(&shards, "a").await;
        let later = directory.upsert_user(&id, named("Anna"), Millis(6)).await.unwrap();
        moved(&shards, "b").await;
        assert_eq!(directory.user(&id).await.unwrap(), Some(later));
    }
}

#[tokio::test]
async fn a_copy_that_differs_is_refused_and_the_shard_stays() {
    let options = two_databases().await;
    let (directory, shards) = (support::open(&options).await, Shards::open(&options).await.unwrap());
    let id = user_of(seven());
    directory.upsert_user(&id, named("Ann"), Millis(5)).await.unwrap();
    let spoil = "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.display_name = 'Ahn'; RETURN NEW; END $$;
                 CREATE FUNCTION spoil_users() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
                   IF to_regclass('dunlin_shard_07.users') IS NOT NULL THEN
                     CREATE OR REPLACE TRIGGER spoil BEFORE INSERT ON dunlin_shard_07.users FOR EACH ROW EXECUTE FUNCTION public.spoil();
                   END IF; END $$;
                 CREATE EVENT TRIGGER spoil ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION spoil_users()";
    support::connect(&options.databases[1].url).await.batch_execute(spoil).await.unwrap();
    let refused = shards.move_to(seven(), "b", |_| {}).await.unwrap_err();
    assert!(matches!(&refused, MoveError::Differs { table, .. } if table == "dunlin_shard_07.users"), "{refused}");
    directory.upsert_user(&id, named("Anna"), Millis(6)).await.unwrap();
    assert!(!holds(&options, 1, "SELECT 1 FROM dunlin.shards").await);
}

#[tokio::test]
async fn what_can_not_be_is_refused() {
    let options = two_databases().await;
    let shards = Shards::open(&options).await.unwrap();
    let refused = shards.move_to(seven(), "c", |_| {}).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no PostgreSQL database c in the configuration");
    shards.move_to(seven(), "a", |_| panic!("it is there already")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_read_and_write_all_the_time_see_nothing_of_a_move() {
    let options = two_databases().await;
    let nodes = [Arc::new(support::open(&options).await), Arc::new(support::open(&options).await)];
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|index: usize| {
            let [one, other] = [Arc::clone(&nodes[index % 2]), Arc::clone(&nodes[(index + 1) % 2])];
            tokio::spawn(write_here_read_there(one, other, Arc::clone(&stop)))
        })
        .collect();
    let shards = Shards::open(&options).await.unwrap();
    for to in ["b", "a", "b", "a", "b"] {
        moved(&shards, to).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut writes = 0;
    for caller in callers {
        writes += caller.await.unwrap();
    }
    assert!(writes > 100, "{writes}");
}

/// What one node has written, the other reads.
async fn write_here_read_there(one: Arc<Directory>, other: Arc<Directory>, stop: Arc<AtomicBool>) -> u64 {
    let id = user_of(seven());
    let mut writes = 0;
    while !stop.load(Ordering::Relaxed) {
        writes += 1;
        let written = one.upsert_user(&id, named(&format!("Ann {writes}")), Millis(writes)).await.expect("write");
        assert_eq!(other.user(&id).await.expect("read"), Some(written));
    }
    writes
}
