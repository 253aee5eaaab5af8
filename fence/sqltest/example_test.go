package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/fence"
)

// The claim of a paused holder is refused after that of the next.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	guard := fence.NewSQL(fence.SQLite)
	if err := guard.EnsureTable(ctx, db); err != nil {
		panic(err)
	}
	work := func(token uint64) error {
		return guard.Do(ctx, db, "stock:42", token, func(tx *sql.Tx) error {
			return nil // read and write here
		})
	}
	fmt.Println(work(1001), work(1002), errors.Is(work(1001), fence.ErrStale))
	// Output: <nil> <nil> true
}
