// Command deploy is an instance of a service that migrates its database when it
// starts. A deployment starts many instances at once: one migrates, the others
// wait for it and serve.
//
//	go run ./deploy -db /var/lib/shop/shop.db
//
// The lock keeps the instances apart. Each migration is a transaction that
// claims the fencing token first, so one that was paused in the middle cannot
// commit when another has taken over.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"
)

// migrations in order; the number of those that were applied is the version.
func migrations() []string {
	return []string{
		`CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL)`,
		`INSERT INTO item (name) VALUES ('first'), ('second')`,
		`ALTER TABLE item ADD COLUMN stock INTEGER NOT NULL DEFAULT 10`,
	}
}

func main() {
	url := flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"), "URL of the Redis with the lock; or REDIS_URL")
	file := flag.String("db", "shop.db", "file of the database")
	ttl := flag.Duration("ttl", holdfast.DefaultTTL, "TTL of the lock: how long a dead instance keeps others waiting")
	pause := flag.Duration("pause", 0, "wait after each migration, to try it out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, *url, *file, *ttl, *pause); err != nil {
		log.Fatal(err)
	}
}

func start(ctx context.Context, url, file string, ttl, pause time.Duration) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.WithName("deploy"))
	if err != nil {
		return err
	}
	defer client.Close()
	db, err := sql.Open("sqlite", file+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		return err
	}
	defer db.Close()

	if err := migrate(ctx, client.Mutex("migrate:shop", holdfast.WithTTL(ttl)), db, pause); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	fmt.Println("serving")
	<-ctx.Done()
	return nil
}

// migrate applies the migrations that are missing, each once. Instances that
// wait find the version up to date.
func migrate(ctx context.Context, lock *holdfast.Mutex, db *sql.DB, pause time.Duration) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		lease := holdfast.LeaseFromContext(ctx)
		guard := fence.NewSQL(fence.SQLite)
		if err := guard.EnsureTable(ctx, db); err != nil {
			return err
		}
		for i, statement := range migrations() {
			applied := false
			err := guard.Do(ctx, db, lease.Resource(), lease.Token(), func(tx *sql.Tx) (err error) {
				applied, err = apply(ctx, tx, i, statement)
				return err
			})
			if err != nil {
				return fmt.Errorf("number %d: %w", i+1, err)
			}
			if applied {
				fmt.Println("applied:", i+1)
				rest(ctx, pause)
			}
		}
		return nil
	})
}

// apply runs a migration and counts it, in one transaction.
func apply(ctx context.Context, tx *sql.Tx, version int, statement string) (bool, error) {
	var now int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&now); err != nil || now > version {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return false, err
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version+1))
	return err == nil, err
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
