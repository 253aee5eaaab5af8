package stores

import (
	"context"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctorstores"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

var (
	_ store.Examiner = (*postgresNode)(nil)
	_ store.Examiner = (*mysqlNode)(nil)
	_ store.Examiner = (*sqliteNode)(nil)
	_ store.Examiner = (*etcdNode)(nil)
	_ store.Examiner = (*zookeeperNode)(nil)
)

func subject(n store.Node, o diagnosis.Options) doctorstores.Subject {
	return doctorstores.Subject{Place: diagnosis.Place(n.Short()), Options: o, Engine: n.Engine}
}

// Examine implements store.Examiner.
func (n *postgresNode) Examine(ctx context.Context, o diagnosis.Options) []diagnosis.Finding {
	return doctorstores.PostgreSQL(ctx, subject(n, o), n.pool)
}

// Examine implements store.Examiner.
func (n *mysqlNode) Examine(ctx context.Context, o diagnosis.Options) []diagnosis.Finding {
	return doctorstores.MySQL(ctx, subject(n, o), n.db)
}

// Examine implements store.Examiner.
func (n *sqliteNode) Examine(ctx context.Context, o diagnosis.Options) []diagnosis.Finding {
	return doctorstores.SQLite(ctx, subject(n, o), n.db)
}

// Examine implements store.Examiner.
func (n *etcdNode) Examine(ctx context.Context, o diagnosis.Options) []diagnosis.Finding {
	return doctorstores.Etcd(ctx, subject(n, o), n.client, n.secure)
}

// Examine implements store.Examiner.
func (n *zookeeperNode) Examine(ctx context.Context, o diagnosis.Options) []diagnosis.Finding {
	return doctorstores.ZooKeeper(ctx, subject(n, o), n.conn, n.hosts, n.root)
}
