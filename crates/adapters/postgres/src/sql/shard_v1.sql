-- Times are milliseconds since 1970. Ids are compared bytewise.

CREATE TABLE users (
  id           text COLLATE "C" PRIMARY KEY,
  display_name text,
  metadata     bytea, -- an encoded map of texts
  phone        text,
  -- Claims of a number up to this one set nothing any more: see dunlin_lookup.phones.
  phone_claim  bigint NOT NULL DEFAULT 0,
  created_at   bigint NOT NULL,
  updated_at   bigint NOT NULL
);

CREATE TABLE server_keys (
  id          text COLLATE "C" PRIMARY KEY,
  name        text NOT NULL,
  scopes      text NOT NULL, -- separated by spaces
  secret_hash bytea NOT NULL, -- SHA-256
  created_at  bigint NOT NULL,
  revoked_at  bigint
);

-- No reference to users: tokens may be revoked before their user is first heard of, and stay revoked after it is gone.
CREATE TABLE token_revocations (
  user_id       text COLLATE "C" PRIMARY KEY,
  issued_before bigint NOT NULL
);

CREATE TABLE tasks (
  name   text COLLATE "C" PRIMARY KEY,
  holder text NOT NULL, -- a node, in hexadecimal
  until  bigint NOT NULL
);

-- Copies: the log decides, and the later seq stands. In the shard of whoever blocks.
CREATE TABLE block_copies (
  blocker text COLLATE "C" NOT NULL,
  blocked text COLLATE "C" NOT NULL,
  seq     bigint NOT NULL,
  since   bigint NOT NULL,
  is_on   boolean NOT NULL,
  PRIMARY KEY (blocker, blocked)
);
