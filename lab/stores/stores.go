package stores

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Store is a kind of store.
type Store struct {
	Name   string
	Faults Faults
	// Clocks says whose time of day counts.
	Clocks Clocks
	// Members is how many servers replicate each other; 0: there is no server.
	Members int
	// Starts is about how long a killed server takes to serve again; a Redis does at once.
	Starts time.Duration
	// Launch starts a server, or an ensemble. Errors: what it takes is not installed.
	Launch func() (Server, error)
	// Scripts is set for Redis: the queue is in its scripts, and wake-ups come with the writes.
	Scripts bool
	// Confirms is set if a grant counts only when all replicas have it.
	Confirms bool
	// wire is how the name of a resource looks in a command; nil: as it is.
	wire func(name string) string
}

// Faults are those that a store can have, besides a stop.
type Faults struct {
	Dies   bool // it is killed and restarted with its data
	Loses  bool // it is restarted without its data, after which docs/GUARANTEES.md still promises something
	Links  bool // the connections of one client can be disturbed
	Pooled bool // the engine may use connections that the caller's other work can take
	Takes  bool // a replica can take the place of its master: the Server is a Replicated
}

// Clocks says whose time of day counts for marks.
type Clocks uint8

// The clocks.
const (
	OfStore   Clocks = iota // that of the store
	OfClients               // those of the clients, which must agree within a minute
)

// Server is a running store. A method that cannot do its work panics.
type Server interface {
	// URL is what Open takes.
	URL() string
	// Kill ends it with SIGKILL: of several members, the leader.
	Kill()
	// Pause stops it until Resume: a server, or its leader, with SIGSTOP; a file, by a foreign
	// process that holds its lock.
	Pause()
	Resume()
	// Restart starts what was killed. If nothing was, it kills first.
	Restart()
	// Stop ends it, and removes its data.
	Stop()
}

// Emptier is a Server that can lose its data.
type Emptier interface {
	// Empty kills the server and removes its data.
	Empty() error
}

// Writer is a Server whose disk can be slow.
type Writer interface {
	// SlowDisk makes each write to the disk take longer by a time, until its End.
	SlowDisk(by time.Duration) (*redistest.SlowDisk, error)
}

// Logged is a Server that keeps a log of all changes.
type Logged interface {
	// LogDir is the folder of the log.
	LogDir() string
}

// Copier is a Server whose data can be rolled back.
type Copier interface {
	// Copy makes a copy of what is on disk, while the server runs, in place of an earlier one.
	Copy() error
	// Restore kills the server and replaces its data by the copy: what it wrote since is lost, as when the power fails
	// and the disk had no more.
	Restore() error
}

// All returns the table.
func All() []Store {
	alone, shared := Faults{Dies: true, Links: true}, Faults{Dies: true, Links: true, Pooled: true}
	return []Store{
		{Name: "redis", Members: 1, Launch: launchRedis, Faults: Faults{Dies: true, Loses: true, Links: true, Pooled: true}, Scripts: true},
		{Name: "sentinel", Members: 3, Launch: launchSentinel(""), Faults: Faults{Dies: true, Pooled: true, Takes: true}, Scripts: true},
		{Name: "sentinel-replicas", Members: 3, Launch: launchSentinel("?" + confirmedBy + "=2"), Faults: Faults{Dies: true, Pooled: true, Takes: true}, Scripts: true, Confirms: true},
		{Name: "cluster", Members: 6, Launch: launchCluster, Faults: Faults{Dies: true, Takes: true}, Scripts: true},
		{Name: "postgres", Members: 1, Launch: launchPostgres, Faults: shared, Starts: 500 * time.Millisecond},
		{Name: "mysql", Members: 1, Launch: launchMySQL, Faults: shared, Starts: 1500 * time.Millisecond,
			wire: func(name string) string { return hex.EncodeToString([]byte(name)) }},
		{Name: "sqlite", Launch: launchSQLite, Faults: Faults{Pooled: true}, Clocks: OfClients},
		{Name: "etcd", Members: 1, Launch: launchEtcd(1), Faults: alone, Starts: 500 * time.Millisecond, Clocks: OfClients},
		{Name: "etcd-three", Members: 3, Launch: launchEtcd(3), Faults: Faults{Dies: true}, Starts: time.Second, Clocks: OfClients},
		{Name: "zookeeper", Members: 1, Launch: launchZooKeeper, Faults: alone, Starts: 1500 * time.Millisecond, Clocks: OfClients},
		{Name: "zookeeper-three", Members: 3, Launch: launchZooKeepers(3), Faults: Faults{Dies: true}, Starts: 2 * time.Second, Clocks: OfClients},
	}
}

// Redis returns the store of which the lab knows most: it is that of all other locks too.
func Redis() Store { return All()[0] }

// Others returns the table without Redis.
func Others() []Store { return All()[1:] }

// Subject returns the ID of Holdfast on the store, in package subject.
func (s Store) Subject() string {
	if s.Name == "redis" {
		return "holdfast"
	}
	return "holdfast-" + s.Name
}

// Of returns the store on which a subject runs; ok is false if that is not Holdfast
// on a store of the table.
func Of(subject string) (s Store, ok bool) {
	if subject == "holdfast-quorum" {
		return Redis(), true
	}
	all := All()
	i := slices.IndexFunc(all, func(s Store) bool { return s.Subject() == subject })
	if i < 0 {
		return Store{}, false
	}
	return all[i], true
}

// OnWire returns how the name of a resource looks in the bytes of a command.
func (s Store) OnWire(name string) string {
	if s.wire == nil {
		return name
	}
	return s.wire(name)
}
