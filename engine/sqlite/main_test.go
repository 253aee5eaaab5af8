package sqlite_test

import (
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/sqlite"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

func TestMain(m *testing.M) {
	storetest.Main(openEngine)
	leaktest.Main(m)
}

// openEngine is for storetest; the target is a path.
func openEngine(path string) (engine.Engine, func(), error) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return nil, nil, err
	}
	return sqlite.New(db), func() { _ = db.Close() }, nil
}
