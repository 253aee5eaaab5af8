package commandtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/command"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/transcript"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

func TestMain(m *testing.M) { transcript.Main(m, command.Main, nil) }

// scripts is where package command has the scripts that run on every store.
const scripts = "../command/testdata/"

// TestStores runs on each store besides Redis and SQLite what runs on every store. The first script makes the schema.
func TestStores(t *testing.T) {
	postgres, mariadb := transcript.PostgreSQL(t, sqlservers.StartPostgreSQL(t)), transcript.MariaDB(t, sqlservers.StartMySQL(t))
	for name, start := range map[string]func(testing.TB) transcript.Setting{
		"postgresql": func(testing.TB) transcript.Setting { return postgres },
		"mariadb":    func(testing.TB) transcript.Setting { return mariadb },
		"mixed":      func(t testing.TB) transcript.Setting { return transcript.Mixed(t, postgres, mariadb) },
		"etcd":       transcript.Etcd,
		"zookeeper":  transcript.ZooKeeper,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			for _, folder := range []string{"stores/" + name, "topologies", "stores/all"} {
				p.Run(t, scripts+folder)
			}
			if name != "mixed" { // a quorum has no queue
				p.Run(t, scripts+"stores/queue")
			}
			if name == "postgresql" { // one is enough: the scene takes 20 s
				p.Run(t, "testdata/demo")
			}
		})
	}
}
