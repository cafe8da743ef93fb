-- Up to which event of each partition of the log blocks were copied.
CREATE TABLE copied (
  partition INTEGER PRIMARY KEY,
  seq       INTEGER NOT NULL
) STRICT;
