//! Pages: some of something, and how to go on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Pass it as `cursor` for what follows; null at the end.
    pub next: Option<String>,
    /// Pass it as `cursor` for what came before; null at the beginning, and where there is no way back.
    pub prev: Option<String>,
}
