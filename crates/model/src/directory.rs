//! Who there is and who may call: users and server keys, as the directory keeps them.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use sha2::{Digest, Sha256};

use crate::{Metadata, Millis, UserId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    pub id: UserId,
    pub display_name: Option<Name>,
    pub metadata: Option<Metadata>,
    /// No other user has the same.
    pub phone: Option<PhoneNumber>,
    pub created_at: Millis,
    /// When something about the user last changed. Never goes backwards.
    pub updated_at: Millis,
}

/// What an upsert says about a user. The default keeps everything: it only makes sure that the user exists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserChange {
    pub display_name: Field<Name>,
    /// Replaces all of it.
    pub metadata: Field<Metadata>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Field<T> {
    #[default]
    Keep,
    Clear,
    Set(T),
}

impl User {
    pub fn new(id: UserId, change: UserChange, at: Millis) -> User {
        let (display_name, metadata) = (change.display_name.over(None), change.metadata.over(None));
        User { id, display_name, metadata, phone: None, created_at: at, updated_at: at }
    }

    /// The user after a change. A change that changes nothing leaves `updated_at` too, so that a repeated upsert is no change.
    pub fn changed(&self, change: UserChange, at: Millis) -> User {
        let display_name = change.display_name.over(self.display_name.clone());
        let metadata = change.metadata.over(self.metadata.clone());
        self.followed_by(User { display_name, metadata, ..self.clone() }, at)
    }

    /// The user with another phone number, or none. The same number again is no change either.
    pub fn with_phone(&self, phone: Option<PhoneNumber>, at: Millis) -> User {
        self.followed_by(User { phone, ..self.clone() }, at)
    }

    fn followed_by(&self, next: User, at: Millis) -> User {
        let updated_at = if next == *self { self.updated_at } else { self.updated_at.max(at) };
        User { updated_at, ..next }
    }
}

impl<T> Field<T> {
    /// What stands once this was said over what stood before.
    pub fn over(self, before: Option<T>) -> Option<T> {
        match self {
            Field::Keep => before,
            Field::Clear => None,
            Field::Set(value) => Some(value),
        }
    }
}

/// A key by which a back end calls. The secret itself is shown once, when it is made; only its hash is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerKey {
    pub id: ServerKeyId,
    /// What it is for, in the words of whoever made it.
    pub name: Name,
    pub scopes: BTreeSet<Scope>,
    pub secret_hash: SecretHash,
    pub created_at: Millis,
    /// A revoked key is refused, and stays so that one can see that it was there.
    pub revoked_at: Option<Millis>,
}

impl ServerKey {
    /// Whether both are the same key, revoked or not.
    pub fn same_as(&self, other: &ServerKey) -> bool {
        let unrevoked = |key: &ServerKey| ServerKey { revoked_at: None, ..key.clone() };
        unrevoked(self) == unrevoked(other)
    }
}

/// What a server key is good for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Do what a user may do, in that user's name.
    Act,
    /// Create and change users, and revoke their tokens.
    Users,
    /// Read the server's metrics.
    Metrics,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Act, Scope::Users, Scope::Metrics];

    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Act => "act",
            Scope::Users => "users",
            Scope::Metrics => "metrics",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = InvalidDetail;

    fn from_str(text: &str) -> Result<Scope, InvalidDetail> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or(InvalidDetail::Scope)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InvalidDetail {
    #[error("must have 1 to {} characters, not all of them blank and none of them a control character", Name::CHARS_MAX)]
    Name,
    #[error("must have 1 to {} characters of a-z 0-9", ServerKeyId::CHARS_MAX)]
    ServerKeyId,
    #[error("is not a scope")]
    Scope,
    #[error("must be + and {} to {} digits, of which the first is not 0", PhoneNumber::DIGITS_MIN, PhoneNumber::DIGITS_MAX)]
    Phone,
}

/// What people call someone or something.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(Arc<str>);

impl Name {
    pub const CHARS_MAX: usize = 100;

    pub fn parse(text: &str) -> Result<Name, InvalidDetail> {
        if text.chars().count() > Name::CHARS_MAX || text.chars().any(char::is_control) || text.chars().all(char::is_whitespace) {
            return Err(InvalidDetail::Name);
        }
        Ok(Name(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A phone number in its international form, so that one number has one spelling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhoneNumber(Arc<str>);

impl PhoneNumber {
    pub const DIGITS_MIN: usize = 4;
    pub const DIGITS_MAX: usize = 19;

    pub fn parse(text: &str) -> Result<PhoneNumber, InvalidDetail> {
        let digits = text.strip_prefix('+').ok_or(InvalidDetail::Phone)?;
        let fits = (PhoneNumber::DIGITS_MIN..=PhoneNumber::DIGITS_MAX).contains(&digits.len());
        if !fits || digits.starts_with('0') || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidDetail::Phone);
        }
        Ok(PhoneNumber(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Kept out of logs: it is someone's.
impl fmt::Debug for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PhoneNumber(…)")
    }
}

/// The part of a server key that is no secret. It has no `_`, so that `dk_<id>_<secret>` has one reading.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerKeyId(Arc<str>);

impl ServerKeyId {
    pub const CHARS_MAX: usize = 32;

    pub fn parse(text: &str) -> Result<ServerKeyId, InvalidDetail> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if text.is_empty() || text.len() > ServerKeyId::CHARS_MAX || !text.bytes().all(allowed) {
            return Err(InvalidDetail::ServerKeyId);
        }
        Ok(ServerKeyId(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SHA-256 of a secret. Fast on purpose: secrets are long and random, so there is nothing to guess, and comparing two hashes tells nothing
/// about a secret by the time that it takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash(pub [u8; 32]);

impl SecretHash {
    pub fn of(secret: &str) -> SecretHash {
        SecretHash(Sha256::digest(secret).into())
    }
}

/// Kept out of logs, as everything about keys is.
impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

/// What all nodes must hear of, because they remember what the directory said before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Announcement {
    TokensRevoked { user: UserId, issued_before: Millis },
    KeyRevoked(ServerKeyId),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> UserChange {
        UserChange { display_name: Field::Set(Name::parse(name).unwrap()), ..UserChange::default() }
    }

    #[test]
    fn a_change_that_changes_nothing_leaves_the_time_of_the_last_one() {
        let ann = User::new(UserId::parse("ann").unwrap(), named("Ann"), Millis(5));
        assert_eq!(ann.changed(UserChange::default(), Millis(9)), ann);
        assert_eq!(ann.changed(named("Ann"), Millis(9)), ann);
        assert_eq!(ann.changed(named("Anna"), Millis(9)).updated_at, Millis(9));
        assert_eq!(ann.changed(named("Anna"), Millis(3)).updated_at, Millis(5), "a clock that went back");
        assert_eq!(ann.changed(UserChange { display_name: Field::Clear, ..UserChange::default() }, Millis(9)).display_name, None);
    }

    #[test]
    fn names_keep_to_their_limits() {
        for right in ["A", "Ann O'Hara", " 名前 ", &"é".repeat(100)] {
            assert_eq!(Name::parse(right).unwrap().as_str(), right);
        }
        for wrong in ["", " ", "a\nb", "a\0", &"é".repeat(101)] {
            assert_eq!(Name::parse(wrong), Err(InvalidDetail::Name), "{wrong:?}");
        }
        for wrong in ["", "A", "a_b", "ä", &"x".repeat(33)] {
            assert_eq!(ServerKeyId::parse(wrong), Err(InvalidDetail::ServerKeyId), "{wrong:?}");
        }
    }

    #[test]
    fn a_number_is_changed_like_any_detail_and_does_not_show() {
        let number = |text| PhoneNumber::parse(text).ok();
        let ann = User::new(UserId::parse("ann").unwrap(), named("Ann"), Millis(5));
        let with = ann.with_phone(number("+4930123456"), Millis(9));
        assert_eq!((with.phone.clone(), with.updated_at), (number("+4930123456"), Millis(9)));
        assert_eq!(with.with_phone(number("+4930123456"), Millis(11)), with);
        assert_eq!(with.changed(named("Anna"), Millis(11)).phone, with.phone);
        assert!(!format!("{with:?}").contains("4930"));
        for wrong in ["", "+", "4930123456", "+0930123456", "+49 30", "+123", "+12345678901234567890", "+49３0"] {
            assert_eq!(PhoneNumber::parse(wrong).err(), Some(InvalidDetail::Phone), "{wrong}");
        }
        assert_eq!(format!("+{}", "1".repeat(19)).len(), 20, "as long as a number may be");
    }

    #[test]
    fn scopes_read_back() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        assert_eq!("root".parse::<Scope>(), Err(InvalidDetail::Scope));
    }

    #[test]
    fn a_secret_hash_is_sha_256_and_does_not_show() {
        let hash = SecretHash::of("abc");
        assert_eq!(hash.0[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(format!("{hash:?}"), "SecretHash(…)");
    }
}
