package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/sqlite"
)

// Processes of one host share a file, which holds locks alone.
func Example() {
	dir, err := os.MkdirTemp("", "holdfast-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sql.Open("sqlite", filepath.Join(dir, "locks.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	if err := sqlite.Migrate(ctx, db); err != nil {
		fmt.Println(err)
		return
	}
	client, err := holdfast.New(sqlite.New(db))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close() // before db

	lease, err := client.Mutex("nightly-report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("held:", lease.Err() == nil)
	// Output: held: true
}
