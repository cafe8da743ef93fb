-- Times are milliseconds since 1970. Ids are compared bytewise (the default; PostgreSQL: COLLATE "C").

CREATE TABLE users (
  id           TEXT PRIMARY KEY,
  display_name TEXT,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE server_keys (
  id          TEXT PRIMARY KEY,
  name        TEXT NOT NULL,
  scopes      TEXT NOT NULL, -- separated by spaces
  secret_hash BLOB NOT NULL, -- SHA-256
  created_at  INTEGER NOT NULL,
  revoked_at  INTEGER
) STRICT, WITHOUT ROWID;

-- No reference to users: tokens may be revoked before their user is first heard of, and stay revoked after it is gone.
CREATE TABLE token_revocations (
  user_id       TEXT PRIMARY KEY,
  issued_before INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
