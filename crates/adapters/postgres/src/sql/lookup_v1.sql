CREATE TABLE dunlin_lookup.database (version integer NOT NULL);

CREATE SEQUENCE dunlin_lookup.claims;

-- For whom a number is kept. It is theirs if their row in `users` says so too.
CREATE TABLE dunlin_lookup.phones (
  phone      text COLLATE "C" PRIMARY KEY,
  user_id    text COLLATE "C" NOT NULL,
  claim      bigint NOT NULL,
  claimed_at bigint NOT NULL
);

CREATE INDEX phones_by_user ON dunlin_lookup.phones (user_id);
