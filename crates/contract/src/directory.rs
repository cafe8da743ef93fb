//! Cases of the directory.

use dunlin_model::{
    Announcement, BlockRow, Field, Lease, Metadata, Millis, Name, NodeId, PhoneNumber, Scope, SecretHash, Seq, ServerKey, TaskName, User,
    UserChange, UserId,
};
use dunlin_ports::{Directory, PHONE_CLAIM_MS_MAX, StoreError};

use crate::ids;

pub async fn a_new_user_reads_back(directory: &dyn Directory) {
    let id = ids::user();
    let upserted = upsert(directory, &id, set("Ann"), 7).await;
    assert_eq!(
        upserted,
        User { id: id.clone(), display_name: Some(name("Ann")), metadata: None, phone: None, created_at: Millis(7), updated_at: Millis(7) }
    );
    assert_eq!(user(directory, &id).await, Some(upserted));
}

pub async fn a_user_without_details_exists(directory: &dyn Directory) {
    let id = ids::user();
    let upserted = upsert(directory, &id, UserChange::default(), 7).await;
    assert_eq!(upserted.display_name, None);
    assert_eq!(user(directory, &id).await, Some(upserted));
    assert_eq!(exist(directory, &[id]).await, [true]);
}

pub async fn an_absent_user_is_none(directory: &dyn Directory) {
    assert_eq!(user(directory, &ids::user()).await, None);
}

pub async fn ids_that_differ_in_case_are_two_users(directory: &dyn Directory) {
    let hex = ids::hex();
    let small = UserId::parse(&format!("a{hex}")).expect("a valid id");
    let capital = UserId::parse(&format!("A{hex}")).expect("a valid id");
    upsert(directory, &small, set("small"), 1).await;
    assert_eq!(user(directory, &capital).await, None);
    assert_eq!(exist(directory, &[capital, small]).await, [false, true]);
}

pub async fn a_name_keeps_every_character(directory: &dyn Directory) {
    for text in [" O'Hara; -- \"%_\\ ", "名前 👩‍👩‍👧", "e\u{301} is not \u{e9}", &"𝄞".repeat(Name::CHARS_MAX)] {
        let id = ids::user();
        upsert(directory, &id, set(text), 1).await;
        assert_eq!(user(directory, &id).await.and_then(|user| user.display_name), Some(name(text)));
    }
}

pub async fn a_name_is_set_kept_and_cleared(directory: &dyn Directory) {
    let id = ids::user();
    upsert(directory, &id, UserChange::default(), 1).await;
    assert_eq!(upsert(directory, &id, set("Ann"), 2).await.display_name, Some(name("Ann")));
    assert_eq!(upsert(directory, &id, UserChange::default(), 3).await.display_name, Some(name("Ann")));
    assert_eq!(upsert(directory, &id, UserChange { display_name: Field::Clear, ..UserChange::default() }, 4).await.display_name, None);
    assert_eq!(user(directory, &id).await.expect("the user stays").display_name, None);
}

pub async fn metadata_is_set_kept_and_cleared(directory: &dyn Directory) {
    let id = ids::user();
    let metadata = Metadata::parse([("plan", "gold"), ("名", "前 ' \" \\")]).expect("valid metadata");
    let set = UserChange { metadata: metadata.clone().map_or(Field::Keep, Field::Set), ..UserChange::default() };
    assert_eq!(upsert(directory, &id, set, 1).await.metadata, metadata);
    assert_eq!(upsert(directory, &id, UserChange::default(), 2).await.updated_at, Millis(1), "kept");
    assert_eq!(user(directory, &id).await.expect("the user stays").metadata, metadata);
    let cleared = upsert(directory, &id, UserChange { metadata: Field::Clear, ..UserChange::default() }, 3).await;
    assert_eq!((cleared.metadata.clone(), cleared.updated_at), (None, Millis(3)));
    assert_eq!(user(directory, &id).await, Some(cleared));
}

pub async fn a_change_moves_updated_at_and_nothing_else_does(directory: &dyn Directory) {
    let id = ids::user();
    let first = upsert(directory, &id, set("Ann"), 10).await;
    assert_eq!(upsert(directory, &id, set("Ann"), 20).await, first, "the same again");
    assert_eq!(upsert(directory, &id, UserChange::default(), 30).await, first, "nothing said");
    let changed = upsert(directory, &id, set("Anna"), 40).await;
    assert_eq!((changed.created_at, changed.updated_at), (Millis(10), Millis(40)));
    assert_eq!(user(directory, &id).await, Some(changed));
}

pub async fn updated_at_never_goes_backwards(directory: &dyn Directory) {
    let id = ids::user();
    upsert(directory, &id, set("Ann"), 10).await;
    let changed = upsert(directory, &id, set("Anna"), 5).await;
    assert_eq!(
        changed,
        User {
            id: id.clone(),
            display_name: Some(name("Anna")),
            metadata: None,
            phone: None,
            created_at: Millis(10),
            updated_at: Millis(10)
        }
    );
    assert_eq!(user(directory, &id).await, Some(changed));
}

pub async fn two_upserts_at_once_make_one_user(directory: &dyn Directory) {
    for _ in 0..10 {
        let id = ids::user();
        let (one, other) =
            tokio::join!(upsert(directory, &id, UserChange::default(), 1), upsert(directory, &id, UserChange::default(), 2),);
        assert_eq!(one, other);
        assert_eq!(user(directory, &id).await, Some(one));
    }
}

pub async fn a_number_is_set_replaced_and_taken_away(directory: &dyn Directory) {
    let (id, first, second) = (ids::user(), ids::phone(), ids::phone());
    let made = upsert(directory, &id, set("Ann"), 10).await;
    let with_first = set_phone(directory, &id, Some(&first), 20).await;
    assert_eq!(with_first, Some(User { phone: Some(first.clone()), updated_at: Millis(20), ..made.clone() }));
    assert_eq!(user(directory, &id).await, with_first);
    assert_eq!(with_phone(directory, &first).await, Some(id.clone()));
    assert_eq!(set_phone(directory, &id, Some(&second), 30).await.and_then(|user| user.phone), Some(second.clone()));
    assert_eq!((with_phone(directory, &first).await, with_phone(directory, &second).await), (None, Some(id.clone())));
    let without = set_phone(directory, &id, None, 40).await;
    assert_eq!(without, Some(User { updated_at: Millis(40), ..made }));
    assert_eq!(with_phone(directory, &second).await, None);
}

pub async fn a_number_that_is_set_again_is_no_change(directory: &dyn Directory) {
    let (id, phone) = (ids::user(), ids::phone());
    let made = upsert(directory, &id, set("Ann"), 10).await;
    assert_eq!(set_phone(directory, &id, None, 15).await, Some(made));
    let first = set_phone(directory, &id, Some(&phone), 20).await;
    assert_eq!(set_phone(directory, &id, Some(&phone), 30).await, first);
    assert_eq!(upsert(directory, &id, set("Ann"), 40).await.phone, Some(phone), "other changes keep it");
}

pub async fn a_number_is_one_users_at_most(directory: &dyn Directory) {
    let (ann, bea, phone, other) = (ids::user(), ids::user(), ids::phone(), ids::phone());
    upsert(directory, &ann, set("Ann"), 1).await;
    let before = upsert(directory, &bea, set("Bea"), 1).await;
    set_phone(directory, &ann, Some(&phone), 10).await;
    for at in [10, 20, 20 + PHONE_CLAIM_MS_MAX, 20 + 1000 * PHONE_CLAIM_MS_MAX] {
        let refused = directory.set_phone(&bea, Some(&phone), Millis(at)).await;
        assert!(matches!(&refused, Err(StoreError::Conflict(why)) if !why.contains(phone.as_str())), "{refused:?}");
    }
    assert_eq!(user(directory, &bea).await, Some(before));
    assert_eq!(with_phone(directory, &phone).await, Some(ann));
    set_phone(directory, &bea, Some(&other), 30).await;
    assert!(directory.set_phone(&bea, Some(&phone), Millis(PHONE_CLAIM_MS_MAX * 2)).await.is_err());
    assert_eq!(with_phone(directory, &other).await, Some(bea), "who was refused keeps what they had");
}

pub async fn a_number_that_was_given_up_is_anyones(directory: &dyn Directory) {
    let (ann, bea, first, second) = (ids::user(), ids::user(), ids::phone(), ids::phone());
    upsert(directory, &ann, set("Ann"), 1).await;
    upsert(directory, &bea, set("Bea"), 1).await;
    set_phone(directory, &ann, Some(&first), 10).await;
    set_phone(directory, &ann, Some(&second), 11).await;
    set_phone(directory, &bea, Some(&first), 12).await;
    assert_eq!(with_phone(directory, &first).await, Some(bea.clone()));
    set_phone(directory, &ann, None, 13).await;
    set_phone(directory, &bea, Some(&second), 14).await;
    assert_eq!((with_phone(directory, &first).await, with_phone(directory, &second).await), (None, Some(bea)));
}

pub async fn of_two_users_at_once_one_gets_the_number(directory: &dyn Directory) {
    for _ in 0..10 {
        let (ann, bea, phone) = (ids::user(), ids::user(), ids::phone());
        upsert(directory, &ann, set("Ann"), 1).await;
        upsert(directory, &bea, set("Bea"), 1).await;
        let (one, other) =
            tokio::join!(directory.set_phone(&ann, Some(&phone), Millis(2)), directory.set_phone(&bea, Some(&phone), Millis(2)));
        let winner = match (one, other) {
            (Ok(_), Err(StoreError::Conflict(_))) => ann,
            (Err(StoreError::Conflict(_)), Ok(_)) => bea,
            both => panic!("{both:?}"),
        };
        assert_eq!(with_phone(directory, &phone).await, Some(winner));
    }
}

pub async fn nobody_has_an_unknown_number_and_nobody_unknown_gets_one(directory: &dyn Directory) {
    let (id, phone) = (ids::user(), ids::phone());
    assert_eq!(with_phone(directory, &phone).await, None);
    assert_eq!(set_phone(directory, &id, Some(&phone), 1).await, None);
    assert_eq!(set_phone(directory, &id, None, 1).await, None);
    assert_eq!((with_phone(directory, &phone).await, user(directory, &id).await), (None, None));
    let ann = ids::user();
    upsert(directory, &ann, set("Ann"), 1).await;
    set_phone(directory, &ann, Some(&phone), 2).await;
    assert_eq!(with_phone(directory, &phone).await, Some(ann), "it stayed free");
}

pub async fn exist_answers_in_the_order_of_the_question(directory: &dyn Directory) {
    let (ann, bea, nobody) = (ids::user(), ids::user(), ids::user());
    upsert(directory, &ann, UserChange::default(), 1).await;
    upsert(directory, &bea, UserChange::default(), 1).await;
    let asked = [nobody.clone(), bea.clone(), ann, nobody, bea];
    assert_eq!(exist(directory, &asked).await, [false, true, true, false, true]);
    assert_eq!(exist(directory, &[]).await, []);
}

pub async fn a_server_key_reads_back(directory: &dyn Directory) {
    for scopes in [vec![], vec![Scope::Users], Scope::ALL.to_vec()] {
        let key = ServerKey { scopes: scopes.into_iter().collect(), ..fresh_key() };
        create(directory, &key).await;
        assert_eq!(server_key(directory, &key).await, Some(key));
    }
}

pub async fn an_absent_server_key_is_none(directory: &dyn Directory) {
    assert_eq!(server_key(directory, &fresh_key()).await, None);
}

pub async fn creating_a_server_key_again_changes_nothing(directory: &dyn Directory) {
    let key = fresh_key();
    create(directory, &key).await;
    create(directory, &key).await;
    assert_eq!(server_key(directory, &key).await, Some(key));
}

pub async fn another_server_key_under_the_same_id_conflicts(directory: &dyn Directory) {
    let key = fresh_key();
    create(directory, &key).await;
    let others = [
        ServerKey { secret_hash: SecretHash::of("another secret"), ..key.clone() },
        ServerKey { scopes: [Scope::Act].into(), ..key.clone() },
        ServerKey { name: name("another name"), ..key.clone() },
        ServerKey { created_at: Millis(99), ..key.clone() },
    ];
    for other in &others {
        let refused = directory.create_server_key(other).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    assert_eq!(server_key(directory, &key).await, Some(key));
}

pub async fn a_revoked_server_key_stays_with_its_first_time(directory: &dyn Directory) {
    let key = fresh_key();
    create(directory, &key).await;
    let revoked = ServerKey { revoked_at: Some(Millis(20)), ..key.clone() };
    assert_eq!(revoke(directory, &key, 20).await, Some(revoked.clone()));
    assert_eq!(revoke(directory, &key, 30).await, Some(revoked.clone()));
    assert_eq!(revoke(directory, &key, 10).await, Some(revoked.clone()));
    assert_eq!(server_key(directory, &key).await, Some(revoked));
}

pub async fn creating_again_does_not_revive_a_revoked_server_key(directory: &dyn Directory) {
    let key = fresh_key();
    create(directory, &key).await;
    revoke(directory, &key, 20).await;
    create(directory, &key).await;
    assert_eq!(server_key(directory, &key).await.expect("the key stays").revoked_at, Some(Millis(20)));
}

pub async fn revoking_an_absent_server_key_is_none(directory: &dyn Directory) {
    let key = fresh_key();
    assert_eq!(revoke(directory, &key, 20).await, None);
    assert_eq!(server_key(directory, &key).await, None);
}

pub async fn pages_of_server_keys_meet(directory: &dyn Directory) {
    let mut mine = [fresh_key(), fresh_key(), fresh_key()];
    for key in &mine {
        create(directory, key).await;
    }
    let gone = revoke(directory, &mine[0], 20).await.expect("it was just made");
    mine[0] = gone;

    let mut walked: Vec<ServerKey> = Vec::new();
    loop {
        let page = directory.server_keys(walked.last().map(|key| &key.id), 2).await.expect("a page of server keys");
        assert!(page.len() <= 2, "a page keeps to its limit");
        if page.is_empty() {
            break;
        }
        walked.extend(page);
        assert!(walked.is_sorted_by(|one, next| one.id < next.id), "in the order of their ids, each once");
    }

    for key in mine {
        assert!(walked.contains(&key), "{key:?} is on a page");
    }
}

pub async fn nobodys_tokens_are_void_at_first(directory: &dyn Directory) {
    let id = ids::user();
    assert_eq!(valid_from(directory, &id).await, None);
    upsert(directory, &id, UserChange::default(), 1).await;
    assert_eq!(valid_from(directory, &id).await, None);
}

pub async fn revoking_tokens_never_gives_back(directory: &dyn Directory) {
    let id = ids::user();
    for (issued_before, stands) in [(20, 20), (10, 20), (30, 30), (30, 30)] {
        directory.revoke_tokens(&id, Millis(issued_before)).await.expect("revoke");
        assert_eq!(valid_from(directory, &id).await, Some(Millis(stands)));
    }
}

pub async fn revoking_tokens_needs_no_user_and_makes_none(directory: &dyn Directory) {
    let id = ids::user();
    directory.revoke_tokens(&id, Millis(20)).await.expect("revoke");
    assert_eq!(user(directory, &id).await, None);
    upsert(directory, &id, UserChange::default(), 30).await;
    assert_eq!(valid_from(directory, &id).await, Some(Millis(20)), "the user came later");
}

pub async fn a_task_is_its_holders_until_the_lease_ends(directory: &dyn Directory) {
    let (task, one, other) = (ids::task(), ids::node(), ids::node());
    assert_eq!(take(directory, &task, one, 100, 0).await, Lease { holder: one, until: Millis(100) });
    assert_eq!(take(directory, &task, other, 200, 50).await, Lease { holder: one, until: Millis(100) });
    assert_eq!(take(directory, &task, other, 200, 99).await.holder, one);
    assert_eq!(take(directory, &task, other, 200, 100).await, Lease { holder: other, until: Millis(200) });
    assert_eq!(take(directory, &task, one, 300, 150).await.holder, other, "it was lost, and stays so");
    assert_eq!(take(directory, &ids::task(), one, 300, 150).await.holder, one, "another task");
}

pub async fn a_holder_renews_its_task(directory: &dyn Directory) {
    let (task, one, other) = (ids::task(), ids::node(), ids::node());
    for (until, now) in [(100, 0), (150, 50), (150, 60), (400, 300)] {
        assert_eq!(take(directory, &task, one, until, now).await, Lease { holder: one, until: Millis(until) });
    }
    assert_eq!(take(directory, &task, other, 500, 399).await, Lease { holder: one, until: Millis(400) });
}

pub async fn a_released_task_is_anyones_and_only_its_holder_releases_it(directory: &dyn Directory) {
    let (task, one, other) = (ids::task(), ids::node(), ids::node());
    directory.release_task(&task, one).await.expect("nobody holds it");
    take(directory, &task, one, 100, 0).await;
    directory.release_task(&task, other).await.expect("nothing happens");
    assert_eq!(take(directory, &task, other, 200, 10).await.holder, one);
    directory.release_task(&task, one).await.expect("release");
    directory.release_task(&task, one).await.expect("release again");
    assert_eq!(take(directory, &task, other, 200, 20).await.holder, other);
}

pub async fn of_many_takers_at_once_one_holds_the_task(directory: &dyn Directory) {
    let task = ids::task();
    let nodes: Vec<NodeId> = (0..4).map(|_| ids::node()).collect();
    let takes = [0, 1, 2, 3].map(|index| take(directory, &task, nodes[index], 100, 0));
    let [a, b, c, d] = takes;
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    assert!(nodes.contains(&a.holder));
    assert_eq!([b, c, d], [a; 3]);
}

pub async fn the_latest_copy_of_a_block_stands_whichever_came_first(directory: &dyn Directory) {
    let (ann, bea) = (ids::user(), ids::user());
    let copy = |at, on| BlockRow { blocker: ann.clone(), blocked: bea.clone(), at: seq(at), since: Millis(at * 10), on };
    for (copied, stands) in
        [((5, true), (5, true)), ((3, false), (5, true)), ((5, true), (5, true)), ((7, false), (7, false)), ((6, true), (7, false))]
    {
        directory.copy_block(&copy(copied.0, copied.1)).await.expect("copy");
        assert_eq!(blocks(directory, &ann).await, [copy(stands.0, stands.1)]);
    }
    assert_eq!(blocks(directory, &bea).await, [], "who is blocked blocks nobody");
}

pub async fn pages_of_copied_blocks_meet(directory: &dyn Directory) {
    let (ann, mut others) = (ids::user(), [(); 5].map(|()| ids::user()));
    for (at, other) in (1..).zip(&others) {
        let block = BlockRow { blocker: ann.clone(), blocked: other.clone(), at: seq(at), since: Millis(at), on: at % 2 == 0 };
        directory.copy_block(&block).await.expect("copy");
    }
    others.sort();
    let mut walked: Vec<UserId> = Vec::new();
    loop {
        let page = directory.blocks_copied(&ann, walked.last(), 2).await.expect("a page of blocks");
        assert!(page.len() <= 2, "a page keeps to its limit");
        if page.is_empty() {
            break;
        }
        walked.extend(page.into_iter().map(|block| block.blocked));
    }
    assert_eq!(walked, others);
}

pub async fn revocations_are_announced_to_whoever_listened_before(directory: &dyn Directory) {
    let (user, key, missing) = (ids::user(), fresh_key(), ids::server_key_id());
    directory.create_server_key(&key).await.expect("create");
    let (before, heard) = directory.announced(None).await.expect("listen");
    assert_eq!(before, [], "from now on");
    directory.revoke_tokens(&user, Millis(77)).await.expect("revoke");
    directory.revoke_server_key(&key.id, Millis(5)).await.expect("revoke");
    directory.revoke_server_key(&missing, Millis(5)).await.expect("revoke");
    let (announced, now) = directory.announced(Some(&heard)).await.expect("hear");
    assert!(announced.contains(&Announcement::TokensRevoked { user, issued_before: Millis(77) }), "{announced:?}");
    assert!(announced.contains(&Announcement::KeyRevoked(key.id.clone())), "{announced:?}");
    assert!(!announced.contains(&Announcement::KeyRevoked(missing)), "nothing happened");
    assert!(now.0.iter().zip(&heard.0).all(|(now, heard)| now >= heard));
    directory.forget_announced(60 * 60 * 1_000).await.expect("forget");
    let (kept, _) = directory.announced(Some(&heard)).await.expect("hear");
    assert!(kept.contains(&Announcement::KeyRevoked(key.id)), "only what is old is forgotten");
}

pub async fn how_far_blocks_were_copied_never_goes_back(directory: &dyn Directory) {
    let [one, other] = [(); 2].map(|()| ids::partition());
    assert_eq!(directory.copied_up_to(one).await.expect("read"), None);
    for (set, stands) in [(5, 5), (3, 5), (5, 5), (9, 9)] {
        directory.set_copied_up_to(one, seq(set)).await.expect("set");
        assert_eq!(directory.copied_up_to(one).await.expect("read"), Some(seq(stands)));
    }
    assert_eq!(directory.copied_up_to(other).await.expect("read"), None);
}

fn fresh_key() -> ServerKey {
    ServerKey {
        id: ids::server_key_id(),
        name: name("the shop's back end"),
        scopes: Scope::ALL.into(),
        secret_hash: SecretHash::of(&ids::hex()),
        created_at: Millis(1_700_000_000_000),
        revoked_at: None,
    }
}

fn name(text: &str) -> Name {
    Name::parse(text).expect("a valid name")
}

fn set(display_name: &str) -> UserChange {
    UserChange { display_name: Field::Set(name(display_name)), ..UserChange::default() }
}

async fn upsert(directory: &dyn Directory, id: &UserId, change: UserChange, at: u64) -> User {
    directory.upsert_user(id, change, Millis(at)).await.expect("upsert")
}

async fn user(directory: &dyn Directory, id: &UserId) -> Option<User> {
    directory.user(id).await.expect("read the user")
}

async fn exist(directory: &dyn Directory, ids: &[UserId]) -> Vec<bool> {
    directory.exist(ids).await.expect("look for users")
}

async fn create(directory: &dyn Directory, key: &ServerKey) {
    directory.create_server_key(key).await.expect("create the key");
}

async fn server_key(directory: &dyn Directory, key: &ServerKey) -> Option<ServerKey> {
    directory.server_key(&key.id).await.expect("read the key")
}

async fn revoke(directory: &dyn Directory, key: &ServerKey, at: u64) -> Option<ServerKey> {
    directory.revoke_server_key(&key.id, Millis(at)).await.expect("revoke the key")
}

async fn valid_from(directory: &dyn Directory, id: &UserId) -> Option<Millis> {
    directory.tokens_valid_from(id).await.expect("read from when tokens count")
}

async fn set_phone(directory: &dyn Directory, id: &UserId, phone: Option<&PhoneNumber>, at: u64) -> Option<User> {
    directory.set_phone(id, phone, Millis(at)).await.expect("set the number")
}

async fn with_phone(directory: &dyn Directory, phone: &PhoneNumber) -> Option<UserId> {
    directory.user_with_phone(phone).await.expect("look the number up")
}

async fn take(directory: &dyn Directory, task: &TaskName, holder: NodeId, until: u64, now: u64) -> Lease {
    directory.take_task(task, Lease { holder, until: Millis(until) }, Millis(now)).await.expect("take the task")
}

async fn blocks(directory: &dyn Directory, blocker: &UserId) -> Vec<BlockRow> {
    directory.blocks_copied(blocker, None, 10).await.expect("read copies of blocks")
}

fn seq(at: u64) -> Seq {
    Seq::from_u64(at).expect("a seq")
}
