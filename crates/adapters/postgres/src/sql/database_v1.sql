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
  -- active; frozen: it moves to peer and can only be read; moved: it is at peer now, and nothing of it counts here;
  -- incoming: it is being copied from peer; ready: a whole copy, which can only be read until peer says moved.
  phase   text NOT NULL CHECK (phase IN ('active', 'frozen', 'moved', 'incoming', 'ready')),
  peer    text
);
