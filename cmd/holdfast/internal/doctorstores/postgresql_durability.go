package doctorstores

// durability checks whether a commit survives a crash.
func (p *postgreSQL) durability() {
	const check = "durability"
	const forgets = "so that after it two may hold a resource until the first one's lease would have ended"
	off := func(name string) bool { return p.settings[name] == "off" }
	if off("fsync") {
		p.add(p.Warn(check, "set fsync = on", "fsync off: a crash of the machine forgets leases and may destroy the database, %s", forgets))
	}
	if off("full_page_writes") {
		p.add(p.Warn(check, "set full_page_writes = on, unless the file system never writes a part of a page", "full_page_writes off: a crash of the machine may destroy the database"))
	}
	if off("synchronous_commit") {
		p.add(p.Warn(check, "set synchronous_commit = on for the user of the locks (ALTER ROLE … SET)",
			"synchronous_commit off: a crash of the server forgets the leases of up to 3 × wal_writer_delay, %s", forgets))
	}
	if !off("fsync") && !off("full_page_writes") && !off("synchronous_commit") {
		p.add(p.OK(check, "fsync, full_page_writes, synchronous_commit %s: a crash forgets nothing", p.settings["synchronous_commit"]))
	}
}
