//! `/metrics`: what was asked and how long it took, and the engine's own numbers, for Prometheus.

use std::{fmt::Write as _, time::Duration};

use axum::{
    extract::State,
    http::{Method, StatusCode, header},
    response::IntoResponse,
};
use dunlin_model::Scope;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::{Api, auth::Identity, refusal::Result};

/// One number about the engine.
pub struct Gauge {
    /// Without the prefix `dunlin_`.
    pub name: &'static str,
    pub help: &'static str,
    pub value: f64,
}

pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Request, Counter>,
    seconds: Family<Route, Histogram>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Request {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Route {
    method: &'static str,
    route: &'static str,
}

impl Default for Metrics {
    fn default() -> Metrics {
        const SECONDS: [f64; 12] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];
        let mut registry = Registry::with_prefix("dunlin");
        let requests = Family::<Request, Counter>::default();
        let seconds = Family::<Route, Histogram>::new_with_constructor(|| Histogram::new(SECONDS));
        registry.register("http_requests", "Requests answered", requests.clone());
        registry.register_with_unit(
            "http_request_duration",
            "From the whole head of a request to its answer",
            Unit::Seconds,
            seconds.clone(),
        );
        Metrics { registry, requests, seconds }
    }
}

impl Metrics {
    /// `route` is the pattern of the path, never the path: that may name people, and there are endless ones.
    pub(crate) fn answered(&self, method: &Method, route: &'static str, status: StatusCode, took: Duration) {
        let method = label(method);
        self.seconds.get_or_create(&Route { method, route }).observe(took.as_secs_f64());
        self.requests.get_or_create(&Request { method, route, status: status.as_u16() }).inc();
    }
}

/// Strangers may make up methods, and every one of them would be kept for good.
fn label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// The server's metrics, in the OpenMetrics text format.
#[utoipa::path(get, path = "/metrics", tag = "operation", operation_id = "get_metrics", security((), ("bearer" = [])),
    responses((status = 200, description = "OpenMetrics text", content_type = "application/openmetrics-text")))]
pub(crate) async fn show(State(api): State<Api>, identity: Option<Identity>) -> Result<impl IntoResponse> {
    if !api.options.metrics_are_open {
        Identity::required(identity)?.must_have(Scope::Metrics)?;
    }
    let mut text = String::new();
    for Gauge { name, help, value } in (api.gauges)() {
        let _ = writeln!(text, "# HELP dunlin_{name} {help}\n# TYPE dunlin_{name} gauge\ndunlin_{name} {value}");
    }
    let _ = encode(&mut text, &api.metrics.registry);
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text))
}
