// Package stores has the drivers of the stores besides Redis. The program
// holdfast-stores links it, and holdfast does not (decision 0131).
package stores

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// Drivers returns all drivers besides that of Redis.
func Drivers() []store.Driver {
	drivers := store.Elsewhere()
	for i := range drivers {
		drivers[i].Open = map[string]func(string, store.TLS) (store.Node, error){
			"PostgreSQL": openPostgres,
			"MySQL":      openMySQL,
			"SQLite":     openSQLite,
			"etcd":       openEtcd,
			"ZooKeeper":  openZooKeeper,
		}[drivers[i].Name]
	}
	return drivers
}

// formOf returns how the URLs of a store are written.
func formOf(name string) string {
	for _, d := range store.Elsewhere() {
		if d.Name == name {
			return d.Form
		}
	}
	return ""
}

// dialTimeout bounds one attempt to connect. It is short, since a person waits for the command.
const dialTimeout = 2 * time.Second

// withPort returns hosts with a port each, that of their kind if they have none.
func withPort(hosts []string, port string) []string {
	full := make([]string, len(hosts))
	for i, host := range hosts {
		u := url.URL{Host: host}
		full[i] = host
		if u.Port() == "" {
			full[i] = net.JoinHostPort(u.Hostname(), port)
		}
	}
	return full
}

// noMore returns an error for the first parameter of a URL that nothing has taken.
func noMore(u *url.URL, q url.Values, kind string) error {
	for name := range q {
		return store.RefusedURL(u, fmt.Sprintf("unknown parameter %q", name), formOf(kind))
	}
	return nil
}

// location is where a store with servers is. It implements a part of store.Node.
type location struct {
	kind   string
	hosts  []string
	detail string // ", database NAME"
}

// Servers implements store.Node.
func (l *location) Servers() []string {
	names := make([]string, len(l.hosts))
	for i, host := range l.hosts {
		names[i] = l.kind + " " + host
	}
	return names
}

func (l *location) String() string { return l.kind + " at " + strings.Join(l.hosts, ", ") + l.detail }

// Short implements store.Node.
func (l *location) Short() string { return l.hosts[0] }
