-- What all nodes must hear of, written with the change itself, in the database of its shard.
CREATE TABLE dunlin.outbox (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
  kind    text NOT NULL, -- tokens_revoked, key_revoked
  subject text NOT NULL, -- a user, a server key
  value   bigint -- tokens that were issued before
);

CREATE INDEX outbox_by_time ON dunlin.outbox (at);
