//! Every limit of the model, with its unit in its name.

pub const USER_ID_CHARS_MAX: usize = 64;
pub const AD_ID_BYTES_MAX: usize = 128;
pub const CLIENT_ID_CHARS_MAX: usize = 64;
pub const MESSAGE_TYPE_CHARS_MAX: usize = 32;
pub const TEXT_BYTES_MAX: usize = 64 * 1024;
pub const OPAQUE_BYTES_MAX: usize = 64 * 1024;
pub const CONTENT_TYPE_BYTES_MAX: usize = 128;
pub const EMOJI_BYTES_MAX: usize = 32;
pub const METADATA_ENTRIES_MAX: usize = 32;
pub const METADATA_NAME_BYTES_MAX: usize = 64;
pub const METADATA_VALUE_BYTES_MAX: usize = 1024;
pub const PREVIEW_CHARS_MAX: usize = 140;

/// A bucket (a partition of messages at scale) is cut when it reaches either.
pub const BUCKET_MESSAGES_MAX: u32 = 10_000;
pub const BUCKET_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// There is an index row every so many messages, so any seek reads at most this many rows.
pub const INDEX_EVERY: u64 = 500;

/// How many of the newest numbers deleted for everyone the head keeps; older ones are counted from their rows.
pub const DELETED_IN_HEAD_MAX: usize = 256;

/// Of how many of the newest messages at most the head keeps the client id.
pub const RECENT_IDS_IN_HEAD_MAX: usize = 64;

/// What the feed keeps; a cursor older than this is told to start over.
pub const FEED_DAYS: u64 = 400;
/// How many emojis one user may put on one message, also those taken back.
pub const REACTIONS_PER_USER_MAX: usize = 16;
