//! How Dunlin is called over the network: parse, call a use case, answer.
//!
//! A request passes [`layers`] (its id, its metrics, a net under panics), then for `/v1` [`gate`] (who calls, how often, and whether this was answered before),
//! then its route. What is not here: any decision about messages (use cases and projector), and any store.

pub mod auth;
mod docs;
mod etag;
mod extract;
mod gate;
mod idempotency;
mod layers;
mod limits;
mod metrics;
mod refusal;
mod routes;
mod server;
mod show;
mod steady;

use std::sync::Arc;

use axum::{Router, extract::Request, response::Response};
use dunlin_app::App;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::cors::CorsLayer;

pub use limits::RateLimits;
pub use metrics::Gauge;
pub use server::{Connections, serve};

use crate::{auth::Verifier, idempotency::InProgress, limits::Limiters, metrics::Metrics};

/// How the node does, asked for at each look.
pub type Health = Arc<dyn Fn() -> Condition + Send + Sync>;

pub struct Condition {
    /// Whether messages can be sent here.
    pub is_serving: bool,
    /// What stands in the way of full service, in sentences for the operator; empty if nothing does.
    pub troubles: Vec<String>,
}

/// Numbers about the engine, asked for at each look at the metrics.
pub type Gauges = Arc<dyn Fn() -> Vec<Gauge> + Send + Sync>;

/// What can be chosen about the API.
pub struct Options {
    pub body_bytes_max: usize,
    pub rate_limits: RateLimits,
    /// Web pages of these origins may call; `*` for all.
    pub cors_origins: Vec<String>,
    /// Whether metrics are shown without a key.
    pub metrics_are_open: bool,
    /// Tokens for anyone who asks. Only ever on loopback.
    pub dev: bool,
}

/// What every route can reach. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api(Arc<Inner>);

pub(crate) struct Inner {
    app: App,
    verifier: Verifier,
    health: Health,
    gauges: Gauges,
    options: Options,
    limiters: Limiters,
    in_progress: InProgress,
    metrics: Metrics,
    /// Which pattern a path is of.
    routes: matchit::Router<routes::Pattern>,
}

impl std::ops::Deref for Api {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// Everything that can be called, as one service.
#[derive(Clone)]
pub struct Service {
    api: Api,
    router: Router,
    cors: Option<CorsLayer>,
}

impl Service {
    pub fn new(app: App, verifier: Verifier, health: Health, gauges: Gauges, options: Options) -> Service {
        let limiters = Limiters::new(&options.rate_limits);
        let cors = routes::cors(&options.cors_origins);
        let (router, document) = routes::router(options.dev);
        let api = Api(Arc::new(Inner {
            app,
            verifier,
            health,
            gauges,
            options,
            limiters,
            in_progress: InProgress::default(),
            metrics: Metrics::default(),
            routes: routes::patterns(&document),
        }));
        Service { router: router.with_state(api.clone()), api, cors }
    }

    pub(crate) async fn answer(self, request: Request) -> Response {
        let Service { api, router, cors } = self;
        let answer = service_fn(move |request| layers::answer(api.clone(), router.clone(), request));
        let Ok(response) = match cors {
            None => answer.oneshot(request).await,
            Some(cors) => cors.layer(answer).oneshot(request).await,
        };
        response
    }
}
