-- Holdfast's tables, version 1, for MySQL and MariaDB.
CREATE TABLE IF NOT EXISTS holdfast1_document (
	k     VARBINARY(1027) NOT NULL, -- space, length of the prefix in two bytes, prefix, name
	rev   BIGINT NOT NULL,
	until BIGINT NOT NULL,          -- microseconds since 1970 by this server's clock: when it may be deleted
	value MEDIUMBLOB NOT NULL,
	PRIMARY KEY (k)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS holdfast1_wake (
	seq     BIGINT NOT NULL AUTO_INCREMENT,
	at      BIGINT NOT NULL,        -- microseconds since 1970
	address VARBINARY(1027) NOT NULL,
	body    VARBINARY(4096) NOT NULL,
	PRIMARY KEY (seq),
	KEY (address, seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
