package stores

import (
	"context"
	"crypto/tls"
	"database/sql"
	"regexp"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/engine"
	mysqlengine "github.com/holdfast-go/holdfast/engine/mysql"
)

// mysqlNode is a database of MySQL or MariaDB.
type mysqlNode struct {
	location
	db *sql.DB
}

// openMySQL opens mysql://[user[:password]@]host[:port]/database. The parameters are those of
// go-sql-driver, and socket=/path.
func openMySQL(text string, t store.TLS) (store.Node, error) {
	form := formOf("MySQL")
	u, hosts, err := store.ParseURL(text, form)
	if err != nil {
		return nil, err
	}
	if len(hosts) > 1 {
		return nil, store.Errorf("the store's URL has several hosts: a MySQL has one; write %s", form)
	}
	name := strings.Trim(u.Path, "/")
	if name == "" || strings.Contains(name, "/") {
		return nil, store.Errorf("the store's URL names no database: write %s", form)
	}
	q := u.Query()
	network, addr := "tcp", withPort(hosts, "3306")[0]
	if socket := q.Get("socket"); socket != "" {
		network, addr = "unix", socket
		q.Del("socket")
	}
	c, err := mysql.ParseDSN("/?" + q.Encode())
	if err != nil {
		return nil, store.RefusedURL(u, err.Error(), form)
	}
	c.Net, c.Addr, c.DBName, c.User = network, addr, name, u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Logger = &mysql.NopLogger{} // its errors come back
	if c.Timeout == 0 {
		c.Timeout = dialTimeout
	}
	if t != (store.TLS{}) {
		if c.TLSConfig != "false" {
			c.TLS = &tls.Config{ServerName: u.Hostname()}
		}
		if err := t.Apply(c.TLS, "omit tls=false"); err != nil {
			return nil, err
		}
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, store.RefusedURL(u, err.Error(), form)
	}
	n := &mysqlNode{location{"MySQL", []string{addr}, ", database " + name}, sql.OpenDB(connector)}
	n.db.SetMaxIdleConns(8) // the engine uses six, and a connection costs several round trips
	return n, nil
}

// Engine implements store.Node.
func (n *mysqlNode) Engine() engine.Engine { return mysqlengine.New(n.db) }

// RoundTrip implements store.Node.
func (n *mysqlNode) RoundTrip(ctx context.Context, _ string) error {
	_, err := n.db.ExecContext(ctx, "DO 1")
	return err
}

// Schema implements store.Migrator.
func (n *mysqlNode) Schema() string { return mysqlengine.Schema() }

// Migrate implements store.Migrator.
func (n *mysqlNode) Migrate(ctx context.Context) error {
	return asAnswered[*mysql.MySQLError](mysqlengine.Migrate(ctx, n.db))
}

var mysqlFound = regexp.MustCompile(`Error (\d+) \(\w+\): [^\n]*`)

// Advise implements store.Node.
func (n *mysqlNode) Advise(text string) store.Advice {
	if strings.Contains(text, "server does not support TLS") {
		return store.Advice{Found: "the server does not speak TLS", Remedy: "omit the flags of TLS"}
	}
	m := mysqlFound.FindStringSubmatch(text)
	if m == nil {
		return store.Advice{}
	}
	a := store.Advice{Found: m[0]}
	if strings.Count(m[0], ")") > strings.Count(m[0], "(") {
		a.Found = strings.TrimSuffix(m[0], ")") // it was quoted in parentheses
	}
	switch m[1] {
	case "1146", "1054":
		a.Remedy = "the tables are missing: " + migrate
	case "1044", "1142", "1143", "1227":
		a.Refused, a.Remedy = true, "grant the user SELECT, INSERT, UPDATE and DELETE on the tables holdfast1_document and holdfast1_wake (migrate: CREATE)"
	case "1045", "1698", "1820":
		a.Refused, a.Remedy = true, "give user and password in --store or HOLDFAST_STORE"
	case "1046", "1049":
		a.Remedy = "create the database, or correct its name in --store or HOLDFAST_STORE"
	default:
		a = store.Advice{}
	}
	return a
}

// Close implements store.Node.
func (n *mysqlNode) Close() error { return n.db.Close() }
