package command

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/transcript"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// TestStores runs on each store besides Redis the scripts of its own in testdata/stores, with a user who has a password, and a
// database without the schema; and all scripts on SQLite, which needs no server. Package commandtest runs them on the others.
func TestStores(t *testing.T) {
	t.Parallel()
	postgres, mariadb := transcript.PostgreSQL(t, sqlservers.StartPostgreSQL(t)), transcript.MariaDB(t, sqlservers.StartMySQL(t))
	for name, start := range map[string]func(testing.TB) transcript.Setting{
		"postgresql": func(testing.TB) transcript.Setting { return postgres },
		"mariadb":    func(testing.TB) transcript.Setting { return mariadb },
		"mixed":      func(t testing.TB) transcript.Setting { return transcript.Mixed(t, postgres, mariadb) },
		"etcd":       transcript.Etcd,
		"zookeeper":  transcript.ZooKeeper,
		"sqlite":     transcript.SQLite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			p.Run(t, "testdata/stores/"+name) // with the schema, which it makes
			p.Run(t, "testdata/stores/doctor/"+name)
			if name == "sqlite" {
				for _, folder := range []string{"topologies", "stores/all", "stores/queue"} {
					p.Run(t, "testdata/"+folder)
				}
			}
		})
	}
}
