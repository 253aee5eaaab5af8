package main

import (
	"context"
	"database/sql"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/sqlite"
)

// sqliteStore is a file. What it needs of a CPU is that of the clients.
func sqliteStore() store {
	return store{
		name:   "SQLite",
		launch: makeSQLite,
		engine: func(s settings) (engine.Engine, io.Closer, error) {
			db, err := sql.Open("sqlite", s.addrs[0])
			return sqlite.New(db), db, err
		},
		commits: func(s settings) (client, error) {
			db, err := s.sqlPool("sqlite")
			if err != nil {
				return nil, err
			}
			return twice(func(ctx context.Context) error {
				return immediately(ctx, db, "UPDATE bare SET n = n + 1 WHERE id = 1")
			}, func() { _ = db.Close() }), nil
		},
		ring: func(s settings) (client, error) {
			db, err := s.sqlPool("sqlite")
			return sqlRing(db), err
		},
		peers: []contender{
			{name: "BEGIN IMMEDIATE", role: peer, background: true, open: sqlPeer("sqlite", sqlCalls{begin: "BEGIN IMMEDIATE", unlock: "COMMIT"})},
		},
		more: []contender{{name: "flock(2)", role: peer, background: true, open: openFlock}},
	}
}

// immediately runs a statement in a transaction that has the right to write from its start.
func immediately(ctx context.Context, db *sql.DB, statement string) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, s := range []string{"BEGIN IMMEDIATE", statement, "COMMIT"} {
		if _, err := c.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func makeSQLite(ctx context.Context) (*storeServer, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-sqlite-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "locks.db")
	// The others wait for each other, which the engine does by itself, and are as durable as it is.
	s := settings{addrs: []string{"file:" + path, "file:" + path + "?_pragma=synchronous(1)&_pragma=busy_timeout(60000)"}, pool: 1}
	db, err := s.sqlPool("sqlite")
	if err == nil {
		err = sqlite.Migrate(ctx, db)
	}
	if err == nil {
		err = execAll(ctx, db, "CREATE TABLE bare (id INTEGER PRIMARY KEY, n INT)", "INSERT INTO bare VALUES (1, 0)", ringTable)
	}
	stop := func() {
		if db != nil {
			_ = db.Close()
		}
		_ = os.RemoveAll(dir)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return &storeServer{
		addrs: s.addrs, stop: stop,
		writes: func(context.Context) (int, error) { return sqliteWrites(path) },
		clear: func(ctx context.Context) error {
			return execAll(ctx, db, "DELETE FROM holdfast1_document", "DELETE FROM holdfast1_wake", "DELETE FROM ring")
		},
	}, nil
}

// sqliteWrites counts the transactions that changed something: iChange of the header of the WAL's index, in
// the byte order of the machine.
func sqliteWrites(path string) (int, error) {
	f, err := os.Open(path + "-shm")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var n [4]byte
	_, err = f.ReadAt(n[:], 8)
	return int(binary.NativeEndian.Uint32(n[:])), err
}
