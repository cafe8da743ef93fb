-- Up to which event of each partition of the log blocks were copied.
CREATE TABLE copied (
  partition INTEGER PRIMARY KEY,
  seq       INTEGER NOT NULL
) STRICT;

-- What running servers must hear of, written with the change itself.
CREATE TABLE outbox (
  id      INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  kind    TEXT NOT NULL, -- tokens_revoked, key_revoked
  subject TEXT NOT NULL, -- a user, a server key
  value   INTEGER -- tokens that were issued before
) STRICT;

CREATE INDEX outbox_by_time ON outbox (at);
