package doctorstores

// durability checks whether a commit survives a crash.
func (m *mySQL) durability() {
	c := m.check("durability")
	const forgets = "so that after it two may hold a resource until the first one's lease would have ended"
	flush, binary := m.variables["innodb_flush_log_at_trx_commit"], m.variables["sync_binlog"]
	if flush == "" {
		c.Unknown("check that innodb_flush_log_at_trx_commit is 1", "the server does not disclose innodb_flush_log_at_trx_commit")
		return
	}
	c.WarnIf(flush != "1", "set innodb_flush_log_at_trx_commit = 1", "innodb_flush_log_at_trx_commit %s: a crash of the machine forgets the leases of the last second, %s", flush, forgets)
	c.WarnIf(m.variables["log_bin"] == "ON" && binary != "1",
		"set sync_binlog = 1", "sync_binlog %s: after a crash of the machine the binary log may lack changes that the server has, or the other way round, and replicas differ from it", binary)
	c.WarnIf(m.variables["innodb_doublewrite"] == "OFF" || m.variables["innodb_doublewrite"] == "0",
		"set innodb_doublewrite = ON, unless the file system never writes a part of a page", "innodb_doublewrite off: a crash of the machine may destroy the database")
	c.Otherwise("innodb_flush_log_at_trx_commit 1, innodb_doublewrite, log_bin %s: a crash forgets nothing", m.variables["log_bin"])
}
