package storetest

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// OldRows is how many documents WriteOldRows writes, of which it lets one in a hundred last.
const OldRows = 1000

// WriteOldRows writes documents whose time is over at once, each with a message, and makes the first half of the
// messages 11 s old. It returns what counts rows.
func WriteOldRows(t *testing.T, s cas.DocumentStore, db *sql.DB) (number func(query string) int) {
	t.Helper()
	for i := range OldRows {
		keep := time.Nanosecond
		if i%100 == 0 {
			keep = time.Hour
		}
		k := cas.Key{Space: cas.Resources, Prefix: "p", Name: fmt.Sprint(i)}
		c := cas.Change{Key: k, Value: []byte("v"), Keep: keep, Messages: []cas.Message{{To: cas.Address{Prefix: "p", Client: "c"}, Body: []byte("m")}}}
		if _, err := s.Swap(t.Context(), []cas.Change{c}); err != nil {
			t.Fatal(err)
		}
		if i == OldRows/2 {
			if _, err := db.Exec("UPDATE holdfast1_wake SET at = at - 11000000"); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func(query string) (n int) {
		t.Helper()
		if err := db.QueryRow(query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}
