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
  -- active (with a peer: what changes is noted, for it is being copied there); frozen: it moves to peer and can only be read; behind: a copy
  -- of what peer has, without the latest changes; ready: a whole copy of what is frozen at peer, which can only be read, and only once peer
  -- says moved; moved: it is at peer now, and nothing of it counts here.
  phase   text NOT NULL CHECK (phase IN ('active', 'frozen', 'behind', 'ready', 'moved')),
  peer    text
);

-- What has changed in a shard since it began to be copied.
CREATE TABLE dunlin.changes (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  shard      integer NOT NULL,
  relation   text NOT NULL,
  key        jsonb NOT NULL,
  is_applied boolean NOT NULL DEFAULT false
);

CREATE INDEX changes_to_apply ON dunlin.changes (shard, id) WHERE NOT is_applied;

-- Arguments: the shard, and the columns of the table's primary key.
CREATE FUNCTION dunlin.note_change() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  changed jsonb;
BEGIN
  FOR changed IN
    SELECT to_jsonb(OLD) WHERE TG_OP <> 'INSERT' UNION SELECT to_jsonb(NEW) WHERE TG_OP <> 'DELETE'
  LOOP
    INSERT INTO dunlin.changes (shard, relation, key)
      SELECT TG_ARGV[0]::integer, TG_TABLE_NAME, jsonb_object_agg(part, changed -> part) FROM unnest(TG_ARGV[1:]) part;
  END LOOP;
  RETURN NULL;
END
$$;
