-- What an application keeps with a user: an encoded map of texts.

ALTER TABLE users ADD COLUMN metadata BLOB;
