//! The model keeps every promise of the port that it stands for.

use dunlin_contract::ModelStore;

dunlin_contract::message_store!(Box::new(ModelStore::default()));
