//! The gate before `/v1`: who calls, whether not too often, and whether the same was asked and answered before.

use axum::{
    Router,
    extract::Request,
    http::Method,
    response::{IntoResponse as _, Response},
};
use dunlin_protocol::Code;

use crate::{
    Api,
    auth::Identity,
    idempotency,
    refusal::{Result, refuse},
};

pub(crate) async fn pass(api: &Api, router: Router, mut request: Request) -> Result<Response> {
    let identity = Identity::of(api, request.headers()).await?;
    let taken = match &identity {
        Identity::User { user, .. } => api.limiters.user(user),
        Identity::Server { key, .. } => api.limiters.key(key),
    };
    let standing = match taken {
        Ok(standing) => standing,
        Err(refused) => {
            let mut response = refused.refusal.into_response();
            refused.standing.tell(response.headers_mut());
            return Ok(response);
        }
    };
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = match &identity {
        Identity::User { may_write: false, .. } if !reads => refuse(Code::ScopeMissing, "this token may only read").into_response(),
        _ if has_unknown_query(api, &request) => {
            refuse(Code::MalformedRequest, "this operation takes no parameters behind the question mark").into_response()
        }
        _ => {
            request.extensions_mut().insert(identity.clone());
            idempotency::serve(api, &identity, request, router).await.into_response()
        }
    };
    standing.tell(response.headers_mut());
    Ok(response)
}

fn has_unknown_query(api: &Api, request: &Request) -> bool {
    request.uri().query().is_some_and(|query| !query.is_empty())
        && api.routes.at(request.uri().path()).is_ok_and(|found| !found.value.takes_query(request.method()))
}
