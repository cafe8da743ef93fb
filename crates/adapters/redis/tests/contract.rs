//! Every promise of the two ports, kept by a real cluster.

mod common;

use dunlin_contract::ids;
use dunlin_redis::{Ephemeral, SessionBus};

dunlin_contract::ephemeral!(Box::new(Ephemeral::new(common::cluster())));
dunlin_contract::session_bus!(Box::new(SessionBus::new(common::cluster(), ids::node())));
