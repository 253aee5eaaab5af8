-- Holdfast's tables, version 1. Readers do not block writers in the WAL mode.
PRAGMA journal_mode = WAL;

CREATE TABLE IF NOT EXISTS holdfast1_document (
	key   BLOB NOT NULL PRIMARY KEY, -- space, length of the prefix in two bytes, prefix, name
	rev   INTEGER NOT NULL,
	boot  INTEGER NOT NULL,          -- which boot of the host the clock is of; 0: unknown
	made  INTEGER NOT NULL,          -- microseconds of the host's clock
	until INTEGER NOT NULL,          -- when it may be deleted
	value BLOB NOT NULL
);

CREATE TABLE IF NOT EXISTS holdfast1_wake (
	seq     INTEGER PRIMARY KEY,
	at      INTEGER NOT NULL,
	address BLOB NOT NULL,
	body    BLOB NOT NULL
);

CREATE TABLE IF NOT EXISTS holdfast1_host (
	id   INTEGER PRIMARY KEY CHECK (id = 1),
	boot INTEGER NOT NULL            -- the boot of which no document is older
);
