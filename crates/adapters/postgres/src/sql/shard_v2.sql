-- Up to which event of a partition of the log blocks were copied. In the shard of the partition's name, such as 'partition-7'.
CREATE TABLE copied (
  partition bigint PRIMARY KEY,
  seq       bigint NOT NULL
);
