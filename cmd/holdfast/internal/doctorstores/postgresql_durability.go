package doctorstores

// durability checks whether a commit survives a crash.
func (p *postgreSQL) durability() {
	c := p.check("durability")
	const forgets = "so that after it two may hold a resource until the first one's lease would have ended"
	off := func(name string) bool { return p.settings[name] == "off" }
	c.WarnIf(off("fsync"), "set fsync = on", "fsync off: a crash of the machine forgets leases and may destroy the database, %s", forgets)
	c.WarnIf(off("full_page_writes"), "set full_page_writes = on, unless the file system never writes a part of a page", "full_page_writes off: a crash of the machine may destroy the database")
	c.WarnIf(off("synchronous_commit"), "set synchronous_commit = on for the user of the locks (ALTER ROLE … SET)",
		"synchronous_commit off: a crash of the server forgets the leases of up to 3 × wal_writer_delay, %s", forgets)
	c.Otherwise("fsync, full_page_writes, synchronous_commit %s: a crash forgets nothing", p.settings["synchronous_commit"])
}
