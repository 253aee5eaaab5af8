package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/sqlite"
)

// The age of a document counts from before its commit. A Read that begins in between, as while the process that commits is
// stopped, returns the document before it: so a waiter must not count a grant from a poll that was answered in this way.
func TestAgeCountsFromBeforeTheCommit(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	db := open(t, path, "")
	s := sqlite.NewStore(db)
	key := cas.Key{Space: cas.Resources, Prefix: "app", Name: "x"}
	outs, err := s.Swap(t.Context(), []cas.Change{{Key: key, Value: []byte("waits"), Keep: time.Minute}})
	if err != nil || !outs[0].Swapped {
		t.Fatal(outs, err)
	}
	was := outs[0].Doc.Rev
	before, err := s.Read(t.Context(), []cas.Read{{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	// Another process grants, and is stopped before its commit.
	other, err := open(t, path, "").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	change := func(statement string) {
		t.Helper()
		if _, err := other.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	change("BEGIN IMMEDIATE")
	change(fmt.Sprintf("UPDATE holdfast1_document SET rev = rev + 1, value = 'granted', made = made + %d", before[0].Age.Microseconds()))
	poll := time.Now()
	docs, err := s.Read(t.Context(), []cas.Read{{Key: key}})
	if err != nil || docs[0].Rev != was {
		t.Fatalf("a poll before the commit: %+v, %v", docs, err)
	}
	change("COMMIT")
	since := time.Since(poll)
	docs, err = s.Read(t.Context(), []cas.Read{{Key: key}})
	if err != nil || docs[0].Rev == was {
		t.Fatalf("after the commit: %+v, %v", docs, err)
	}
	if docs[0].Age < since {
		t.Fatalf("the document is %v old, and the poll was sent %v ago or earlier", docs[0].Age, since)
	}
	if _, ok := s.(cas.LaggingStore); !ok {
		t.Error("waiters count a grant from a poll that was sent after others began to count it")
	}
}
