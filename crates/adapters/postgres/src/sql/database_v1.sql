-- What a database knows of itself: one row.
CREATE TABLE dunlin.database (
  version integer NOT NULL,
  -- Whether all shards have been made, here or elsewhere. From then on none is ever made anew: one that is missing is missed.
  founded boolean NOT NULL
);

-- The shards that are here, or were.
CREATE TABLE dunlin.shards (
  shard   integer PRIMARY KEY CHECK (shard BETWEEN 0 AND 63),
  version integer NOT NULL,
  -- active; frozen: it moves to peer and can only be read; ready: a whole copy of what is frozen at peer, which can only be read, and only
  -- once peer says moved; moved: it is at peer now, and nothing of it counts here.
  phase   text NOT NULL CHECK (phase IN ('active', 'frozen', 'ready', 'moved')),
  peer    text
);
