-- In international form. Unique also among users who have none, for null is like nothing.

ALTER TABLE users ADD COLUMN phone TEXT;
CREATE UNIQUE INDEX users_by_phone ON users (phone);

CREATE TABLE tasks (
  name   TEXT PRIMARY KEY,
  holder TEXT NOT NULL, -- a node, in hexadecimal
  until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Copies: the log decides, and the later seq stands.
CREATE TABLE block_copies (
  blocker TEXT NOT NULL,
  blocked TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  since   INTEGER NOT NULL,
  is_on   INTEGER NOT NULL,
  PRIMARY KEY (blocker, blocked)
) STRICT, WITHOUT ROWID;
