package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/mysql"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// The locks and the data are in one database. The transaction that writes claims the lease's
// token first, so it cannot commit after a newer holder has claimed.
func Example_fence() {
	server, err := sqlservers.LaunchMySQL() // your server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	ctx := context.Background()
	db, err := sql.Open("mysql", server.DSN(""))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	guard := fence.NewSQL(fence.MySQL)
	if err := errors.Join(mysql.Migrate(ctx, db), guard.EnsureTable(ctx, db)); err != nil {
		log.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE sales (item INT, token BIGINT) ENGINE = InnoDB"); err != nil {
		log.Fatal(err)
	}
	c, err := holdfast.New(mysql.New(db))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// sell does not look whether the lease is still held, as a process does not that is paused.
	sell := func(lease *holdfast.Lease) error {
		return guard.Do(ctx, db, "stock:42", lease.Token(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO sales VALUES (42, ?)", lease.Token())
			return err
		})
	}
	stale, err := c.Mutex("stock:42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Break(ctx, "stock:42", stale.HolderID(), holdfast.Force()); err != nil {
		log.Fatal(err)
	}
	next, err := c.Mutex("stock:42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release(ctx)
	fmt.Println("the next holder sells:", sell(next))
	fmt.Println("the stale one is refused:", errors.Is(sell(stale), fence.ErrStale))
	// Output:
	// the next holder sells: <nil>
	// the stale one is refused: true
}
