package store

import (
	"context"
	"slices"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
)

// Driver opens the URLs of a kind of store, such as PostgreSQL.
type Driver struct {
	Name    string
	Schemes []string // of its URLs, such as postgres
	Form    string   // how its URLs are written, for messages
	// Open returns what a URL names. It does not connect. The URL has no parameters of TLS.
	Open func(url string, t TLS) (Node, error)
}

// Elsewhere returns the drivers that a program has only if they are handed to its Opener, without
// their function Open. The program holdfast-stores has all of them.
func Elsewhere() []Driver {
	return []Driver{
		{Name: "PostgreSQL", Schemes: []string{"postgres", "postgresql"}, Form: "postgres://[user:password@]host[:port]/database"},
		{Name: "MySQL", Schemes: []string{"mysql", "mariadb"}, Form: "mysql://[user:password@]host[:port]/database"},
		{Name: "SQLite", Schemes: []string{"sqlite"}, Form: "sqlite:///path"},
		{Name: "etcd", Schemes: []string{"etcd"}, Form: "etcd://[user:password@]host:port,host:port"},
		{Name: "ZooKeeper", Schemes: []string{"zk", "zookeeper"}, Form: "zk://[user:password@]host:port,host:port[/root]"},
	}
}

// Opens reports whether the driver is for a scheme.
func (d Driver) Opens(scheme string) bool { return slices.Contains(d.Schemes, scheme) }

// Node is what one URL names: a server, or several that are one store.
type Node interface {
	// Engine returns a new engine on the node's connections.
	Engine() engine.Engine
	// RoundTrip makes a call that does nothing, with which the cost of a lock is compared.
	RoundTrip(ctx context.Context, prefix string) error
	// Servers returns a name for each server. Two nodes that have one in common are the same.
	Servers() []string
	// Advise returns what to do about an error, by its text, or a zero Advice.
	Advise(text string) Advice
	// String describes the node for messages, without credentials.
	String() string
	// Short returns a shorter description, for a table.
	Short() string
	// Close disconnects.
	Close() error
}

// Advice is what a Node knows of an error.
type Advice struct {
	Refused bool   // the user's credentials or rights are not enough
	Found   string // what the store said, without what surrounds it; "": the whole text
	Remedy  string // what to do
}

// Causer is a Node that can find out why it gave no useful answer.
type Causer interface {
	// Cause returns the cause of an error with a text, or "".
	Cause(ctx context.Context, text string) string
}

// Examiner is a Node that `holdfast doctor` can examine, other than a RedisNode.
type Examiner interface {
	Examine(ctx context.Context, o diagnosis.Options) []diagnosis.Finding
}

// Migrator is a Node whose store needs a schema.
type Migrator interface {
	// Schema returns it as SQL that may be applied again.
	Schema() string
	// Migrate applies it; it may be called again.
	Migrate(ctx context.Context) error
}
