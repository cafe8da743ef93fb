//! Cases of the directory.

use dunlin_model::{Field, Metadata, Millis, Name, Scope, SecretHash, ServerKey, User, UserChange, UserId};
use dunlin_ports::{Directory, StoreError};

use crate::ids;

pub async fn a_new_user_reads_back(directory: &dyn Directory) {
    let id = ids::user();
    let upserted = upsert(directory, &id, set("Ann"), 7).await;
    assert_eq!(
        upserted,
        User { id: id.clone(), display_name: Some(name("Ann")), metadata: None, created_at: Millis(7), updated_at: Millis(7) }
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
        User { id: id.clone(), display_name: Some(name("Anna")), metadata: None, created_at: Millis(10), updated_at: Millis(10) }
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
