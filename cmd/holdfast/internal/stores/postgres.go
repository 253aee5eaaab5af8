package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/postgres"
)

// postgresNode is a database of PostgreSQL.
type postgresNode struct {
	location
	pool  *pgxpool.Pool
	plain bool // a server without TLS is used without it
}

// openPostgres opens a URL of libpq, also one with the folder of a socket as ?host=. TLS
// verifies the server, unlike libpq's default.
func openPostgres(text string, t store.TLS) (store.Node, error) {
	u, _, err := store.ParseURL(text, formOf("PostgreSQL"))
	if err != nil {
		socket, failed := url.Parse(text)
		if failed != nil || !socket.Query().Has("host") {
			return nil, err
		}
		u = socket
	}
	if t != (store.TLS{}) {
		q := u.Query()
		if q.Get("sslmode") == "disable" {
			return nil, t.Apply(nil, "omit sslmode=disable")
		}
		q.Set("sslmode", "verify-full")
		base, _, _ := strings.Cut(text, "?")
		text = base + "?" + q.Encode()
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		reason := "it is no URL of PostgreSQL"
		if inner := errors.Unwrap(err); inner != nil {
			reason = inner.Error()
		}
		return nil, store.RefusedURL(u, reason, formOf("PostgreSQL"))
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = dialTimeout
	}
	n := &postgresNode{location: location{"PostgreSQL", []string{net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))}, ", database " + c.Database}, plain: c.TLSConfig == nil}
	if t != (store.TLS{}) {
		err = t.Apply(c.TLSConfig, "")
	}
	for _, f := range c.Fallbacks {
		if t != (store.TLS{}) && err == nil {
			err = t.Apply(f.TLSConfig, "")
		}
		n.plain = n.plain || f.TLSConfig == nil
		if host := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); !slices.Contains(n.hosts, host) {
			n.hosts = append(n.hosts, host)
		}
	}
	if slices.ContainsFunc(n.hosts, func(host string) bool { return strings.Contains(host, "@") }) { // pgx takes the first @ for the end of the password, and others the last one
		return nil, store.Errorf("the store's URL has a raw @ before the host: write it as %%40 in a password")
	}
	if err != nil {
		return nil, err
	}
	n.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, store.RefusedURL(u, err.Error(), formOf("PostgreSQL"))
	}
	return n, nil
}

// Engine implements store.Node.
func (n *postgresNode) Engine() engine.Engine { return postgres.New(n.pool) }

// RoundTrip implements store.Node.
func (n *postgresNode) RoundTrip(ctx context.Context, _ string) error {
	_, err := n.pool.Exec(ctx, "SELECT 1")
	return err
}

// Schema implements store.Migrator.
func (n *postgresNode) Schema() string { return postgres.Schema() }

// Migrate implements store.Migrator.
func (n *postgresNode) Migrate(ctx context.Context) error {
	return asAnswered[*pgconn.PgError](postgres.Migrate(ctx, n.pool))
}

// asAnswered returns an error of a driver as holdfast.ErrDenied if the server answered with an
// E, or otherwise as holdfast.ErrUnavailable.
func asAnswered[E error](err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[E](err); ok {
		return fmt.Errorf("%w: %w", holdfast.ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", holdfast.ErrUnavailable, err)
}

var (
	postgresState = regexp.MustCompile(`\(SQLSTATE (\w{5})\)`)
	postgresFound = regexp.MustCompile(`[A-ZÄÖÜ]+: [^\n]*?\(SQLSTATE \w{5}\)`)
	postgresDial  = regexp.MustCompile(`(?:dial error|hostname resolving error|tls error|failed to receive message): ([^\n]*)`)
	postgresNoTLS = regexp.MustCompile(`[^\n]*server refused TLS connection`)
)

const migrate = "run holdfast migrate, or apply what holdfast migrate --print prints"

// Advise implements store.Node.
func (n *postgresNode) Advise(text string) store.Advice {
	if n.plain { // each host was called without TLS too, and that failed for another reason
		text = postgresNoTLS.ReplaceAllString(text, "")
	}
	a := store.Advice{Found: postgresFound.FindString(text)}
	state := ""
	if m := postgresState.FindStringSubmatch(text); m != nil {
		state = m[1]
	}
	switch {
	case slices.Contains([]string{"42P01", "42703", "3F000"}, state):
		a.Remedy = "the table is missing or is another one: " + migrate
	case state == "42501":
		a.Refused, a.Remedy = true, "grant the user USAGE on the schema and SELECT, INSERT, UPDATE and DELETE on the table (migrate: CREATE on the schema)"
	case state == "3D000":
		a.Remedy = "create the database, or correct its name in --store or HOLDFAST_STORE"
	case strings.HasPrefix(state, "28"):
		a.Refused, a.Remedy = true, "give user and password in --store or HOLDFAST_STORE, and see pg_hba.conf of the server"
	case postgresNoTLS.MatchString(text):
		a.Found, a.Remedy = "the server does not speak TLS", "omit the flags of TLS, or write ?sslmode=disable"
	case strings.Contains(text, "the server is a standby"):
		a.Remedy = "give the address of the primary, or all addresses with ?target_session_attrs=read-write"
	}
	if m := postgresDial.FindStringSubmatch(text); m != nil && a.Found == "" {
		a.Found = m[1]
	}
	return a
}

// Close implements store.Node.
func (n *postgresNode) Close() error {
	n.pool.Close()
	return nil
}
