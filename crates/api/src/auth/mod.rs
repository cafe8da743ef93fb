//! Who calls: a user with a token that the host application had signed, or a back end with a server key.

mod jwks;
mod tokens;

use std::collections::BTreeSet;

use axum::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    http::{HeaderMap, HeaderName, header, request::Parts},
};
use dunlin_model::{Scope, ServerKeyId, UserId};
use dunlin_protocol::Code;

pub use jwks::{Jwks, JwksError, JwksSource};
pub use tokens::{Minted, Verifier};

use crate::{
    Api,
    extract::user,
    refusal::{Refusal, Result, refuse},
};

const DUNLIN_USER: HeaderName = HeaderName::from_static("dunlin-user");
const BEARER: &str = "Bearer ";

/// Who a request comes from. Every route says what it needs of it.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    User { user: UserId, may_write: bool },
    Server { key: ServerKeyId, scopes: BTreeSet<Scope>, acting_for: Option<UserId> },
}

impl Identity {
    pub(crate) async fn of(api: &Api, headers: &HeaderMap) -> Result<Identity> {
        let missing = || refuse(Code::Unauthenticated, "the header Authorization must be Bearer and a token or a server key");
        let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?.to_str().map_err(|_| missing())?;
        let credentials = match value.get(..BEARER.len()) {
            Some(scheme) if scheme.eq_ignore_ascii_case(BEARER) => value[BEARER.len()..].trim(),
            _ => return Err(missing()),
        };
        let acting_for = match headers.get(DUNLIN_USER) {
            None => None,
            Some(value) => Some(user("Dunlin-User", value.to_str().unwrap_or_default())?),
        };
        match credentials.strip_prefix("dk_") {
            Some(key) => Identity::of_server(api, key, acting_for).await,
            None => Identity::of_user(api, credentials, acting_for).await,
        }
    }

    async fn of_server(api: &Api, key: &str, acting_for: Option<UserId>) -> Result<Identity> {
        let wrong = || refuse(Code::InvalidToken, "this server key is not valid");
        let (id, secret) = key.split_once('_').ok_or_else(wrong)?;
        let id = ServerKeyId::parse(id).map_err(|_| wrong())?;
        let key = api.app.server_key(&id, secret).await?;
        let identity = Identity::Server { key: key.id, scopes: key.scopes, acting_for };
        if let Identity::Server { acting_for: Some(user), .. } = &identity {
            identity.must_have(Scope::Act)?;
            api.app.user_acted_for(user).await?;
        }
        Ok(identity)
    }

    async fn of_user(api: &Api, token: &str, acting_for: Option<UserId>) -> Result<Identity> {
        let claims = api.verifier.verify(token).await?;
        if acting_for.is_some_and(|other| other != claims.user) {
            return Err(refuse(Code::ScopeMissing, "a user can't act for another; Dunlin-User goes with a server key"));
        }
        api.app.user_by_token(&claims.user, claims.issued_at).await?;
        Ok(Identity::User { user: claims.user, may_write: claims.may_write })
    }

    pub(crate) fn required(identity: Option<Identity>) -> Result<Identity> {
        identity.ok_or_else(|| refuse(Code::Unauthenticated, "the header Authorization must be Bearer and a server key"))
    }

    /// Only server keys have scopes of this kind.
    pub(crate) fn must_have(&self, scope: Scope) -> Result<()> {
        match self {
            Identity::Server { scopes, .. } if scopes.contains(&scope) => Ok(()),
            _ => Err(refuse(Code::ScopeMissing, format!("this needs a server key with the scope {scope}"))),
        }
    }

    /// In whose name; none for a server key that names nobody: then it is the system.
    pub(crate) fn sender(&self) -> Result<Option<UserId>> {
        match self {
            Identity::User { user, .. } => Ok(Some(user.clone())),
            Identity::Server { acting_for, .. } => self.must_have(Scope::Act).map(|()| acting_for.clone()),
        }
    }
}

/// What `gate` has found out.
impl FromRequestParts<Api> for Identity {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Identity> {
        match parts.extensions.get::<Identity>() {
            Some(identity) => Ok(identity.clone()),
            None => Identity::of(api, &parts.headers).await,
        }
    }
}

/// Where credentials may be missing, but not wrong.
impl OptionalFromRequestParts<Api> for Identity {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Option<Identity>> {
        match parts.headers.contains_key(header::AUTHORIZATION) {
            true => <Identity as FromRequestParts<Api>>::from_request_parts(parts, api).await.map(Some),
            false => Ok(None),
        }
    }
}

/// The user in whose name a request is made.
pub(crate) struct Caller(pub(crate) UserId);

impl FromRequestParts<Api> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Caller> {
        let identity = <Identity as FromRequestParts<Api>>::from_request_parts(parts, api).await?;
        let sender = identity.sender()?;
        sender.map(Caller).ok_or_else(|| refuse(Code::ScopeMissing, "name the user to act for in the header Dunlin-User"))
    }
}
