package main

import (
	"context"
	"database/sql"
	"io"

	_ "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/mysql"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// mostConnections is for 200 clients with pools of their own.
const mostConnections = "2000"

func mariaDBStore() store {
	return store{
		name: "MariaDB", disk: true, pair: 1.3,
		launch: launchMariaDB,
		engine: func(s settings) (engine.Engine, io.Closer, error) {
			db, err := s.sqlPool("mysql")
			return mysql.New(db), db, err
		},
		commits: func(s settings) (client, error) {
			db, err := s.sqlPool("mysql")
			if err != nil {
				return nil, err
			}
			return twice(func(ctx context.Context) error {
				_, err := db.ExecContext(ctx, "UPDATE bare SET n = n + 1 WHERE id = 1")
				return err
			}, func() { _ = db.Close() }), nil
		},
		ring: func(s settings) (client, error) {
			db, err := s.sqlPool("mysql")
			return sqlRing(db), err
		},
		peers: []contender{
			{name: "GET_LOCK", role: peer, background: true, open: sqlPeer("mysql", sqlCalls{
				lock:   "DO GET_LOCK(?, 3600)",
				unlock: "DO RELEASE_LOCK(?)", named: true,
			})},
			{name: "SELECT FOR UPDATE, MariaDB", role: peer, background: true, open: sqlPeer("mysql", sqlCalls{
				begin: "BEGIN", lock: "SELECT n FROM bare WHERE id = 1 FOR UPDATE", unlock: "COMMIT",
			})},
		},
	}
}

// sqlPool opens the pool of a client, with a connection for each caller.
func (s settings) sqlPool(driver string) (*sql.DB, error) {
	db, err := sql.Open(driver, s.addrs[len(s.addrs)-1])
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(s.poolSize())
	db.SetMaxIdleConns(s.poolSize())
	return db, nil
}

func launchMariaDB(ctx context.Context) (*storeServer, error) {
	server, err := sqlservers.LaunchMySQL(sqlservers.WithFsync(), sqlservers.WithSetting("max_connections", mostConnections),
		sqlservers.WithSetting("max_user_connections", "0"))
	if err != nil {
		return nil, err
	}
	const parameters = "?interpolateParams=true"
	root, err := sql.Open("mysql", server.DSN("")+parameters)
	if err == nil {
		_, err = root.ExecContext(ctx, "CREATE DATABASE bench")
		_ = root.Close() // it is used no more
	}
	s := settings{addrs: []string{server.DSN("bench") + parameters}, pool: 1}
	db, failed := s.sqlPool("mysql")
	if err == nil {
		err = failed
	}
	if err == nil {
		err = mysql.Migrate(ctx, db)
	}
	if err == nil {
		err = execAll(ctx, db, "CREATE TABLE bare (id INT PRIMARY KEY, n INT)", "INSERT INTO bare VALUES (1, 0)", ringTable)
	}
	stop := func() {
		_ = db.Close()
		server.Stop()
	}
	if err != nil {
		stop()
		return nil, err
	}
	return &storeServer{
		addrs: s.addrs, pid: server.PID(), stop: stop,
		writes: func(ctx context.Context) (int, error) { return mariaWrites(ctx, db) },
		clear: func(ctx context.Context) error {
			return execAll(ctx, db, "TRUNCATE holdfast1_document", "TRUNCATE holdfast1_wake", "TRUNCATE ring")
		},
	}, nil
}

// mariaWrites counts the statements that change rows. Each is a transaction.
func mariaWrites(ctx context.Context, db *sql.DB) (sum int, err error) {
	rows, err := db.QueryContext(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_insert', 'Com_update', 'Com_delete')")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, rows.Err()
}
