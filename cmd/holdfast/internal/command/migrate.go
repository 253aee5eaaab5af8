package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// migrateTimeout bounds the change of one store. Creating a table may wait for other transactions.
const migrateTimeout = 30 * time.Second

// migrateCmd is `holdfast migrate`.
type migrateCmd struct {
	Print bool `help:"Print the SQL and change nothing."`
}

// Help is the long text of --help.
func (*migrateCmd) Help() string {
	return `Creates the tables that Holdfast needs in PostgreSQL, MySQL or MariaDB, or SQLite; a SQLite file too. Tables that are there
are left as they are, so it may be run at each deployment. Other stores need no schema: it says so, with exit code 0.

The user needs the right to create tables, which other verbs do not need. Where people apply SQL by themselves,
--print prints it.

Examples:
	holdfast --store postgres://app@db/app migrate
	holdfast --store sqlite:///var/lib/app/locks.db migrate
	holdfast --store mysql://app@db/app migrate --print | mysql app`
}

// Run applies the schema to each store, or prints it.
func (c *migrateCmd) Run(e *env) error {
	st, err := e.opener.Open(e.url)
	if err != nil {
		return err
	}
	defer st.Close()
	return untilSignal(func(ctx context.Context) error { return c.migrate(ctx, e, st) })
}

func (c *migrateCmd) migrate(ctx context.Context, e *env, st *store.Store) (err error) {
	for _, n := range st.Nodes() {
		m, ok := n.(store.Migrator)
		switch {
		case !ok && c.Print:
			_, err = fmt.Fprintf(e.stdout, "-- %s needs no schema.\n", n)
		case !ok:
			_, err = fmt.Fprintf(e.stdout, "%s: nothing to do, this store needs no schema\n", n)
		case c.Print && len(st.Nodes()) > 1:
			_, err = fmt.Fprintf(e.stdout, "-- %s\n%s\n", n, strings.TrimRight(m.Schema(), "\n"))
		case c.Print:
			_, err = fmt.Fprintln(e.stdout, strings.TrimRight(m.Schema(), "\n"))
		default:
			err = c.apply(ctx, e, n, m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// apply applies the schema to one store.
func (c *migrateCmd) apply(ctx context.Context, e *env, n store.Node, m store.Migrator) error {
	limited, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if err := m.Migrate(limited); err != nil {
		return explain(err, store.Of(n))
	}
	_, err := fmt.Fprintf(e.stdout, "%s: the tables are there\n", n)
	return err
}
