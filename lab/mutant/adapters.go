package mutant

// adapters are bugs of the adapters of engine/cas: on each store, a change replaces any
// document, and not only the one that was read.
func adapters() []Mutant {
	mutant := func(store, file string, p Patch) Mutant {
		return Mutant{
			Name: "a change replaces any document of " + store, File: file, World: Live, Store: store,
			Checks:  []string{"overlap", "inside", "notified", "model", "tokens", "stale", "updates", "sold", "whole", "ended", "leftovers", "errors", "ledger"},
			Patches: []Patch{p},
		}
	}
	return []Mutant{
		mutant("postgres", "engine/postgres/documents.go", Patch{"+keep+` WHERE `+isKey+` AND rev = $4`)", "+keep+` WHERE `+isKey+` AND rev <> 0 * $4`)"}),
		mutant("mysql", "engine/mysql/table_store.go", Patch{"WHERE k = %s AND rev = %d`", "WHERE k = %s AND rev <> 0 * %d`"}),
		mutant("sqlite", "engine/sqlite/file_store.go", Patch{"WHERE key = ? AND rev = ?`", "WHERE key = ? AND rev <> 0 * ?`"}),
		mutant("etcd", "engine/etcd/keyspace.go", Patch{`clientv3.ModRevision(key), "=", int64(c.Rev))`, `clientv3.ModRevision(key), ">", min(0, int64(c.Rev))-1)`}),
		mutant("zookeeper", "engine/zookeeper/swap.go", Patch{"		&zk.DeleteRequest{Path: revisionPath(path, rev), Version: -1},\n", ""}),
	}
}
