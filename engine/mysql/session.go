package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// clock is the server's time in microseconds since 1970, when the statement began. It is a number, so
// that neither the time zone of a session nor the driver's parseTime has an effect.
const clock = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))`

func instant(us int64) time.Time { return time.UnixMicro(us) }

// literal returns bytes as a literal. Values are in the text of statements, so that each is one
// round trip with or without interpolateParams, and no SQL mode or character set has an effect.
func literal(b []byte) string { return "X'" + hex.EncodeToString(b) + "'" }

// Every statement is a transaction of its own, by primary key. So no client ever keeps a row
// locked, not even one that is cut off, and the isolation level of the session has no effect.
const (
	// atOnce is how many statements of calls run at the same time.
	atOnce = 4
	// repeats is how often a statement is repeated after a deadlock with a foreign transaction.
	repeats = 10
)

// session runs f on a connection of the pool, as one of those that may run at the same time.
func (s *tableStore) session(ctx context.Context, f func(c *sql.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.connected(ctx, f)
}

func (s *tableStore) connected(ctx context.Context, f func(c *sql.Conn) error) error {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return explained(err)
	}
	defer c.Close()
	if err = s.inspect(ctx, c); err == nil {
		err = again(ctx, func() error { return f(c) })
	}
	if err != nil && readOnly(err) {
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // the next connection may be to the primary
	}
	return explained(err)
}

// brief bounds the wait of a statement for a row, in seconds. It is in the text of the statement, which MySQL takes for a
// comment.
const brief = `/*M!100106 SET STATEMENT innodb_lock_wait_timeout = 1 FOR */ `

// The same bound on MySQL, which has it for sessions only.
const (
	setBrief     = `SET @holdfast_lock_wait = @@SESSION.innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = 1`
	restoreBrief = `SET SESSION innodb_lock_wait_timeout = @holdfast_lock_wait`
)

// briefly runs f for some changes, none of which waits long for a row. On MySQL that costs two statements, so that a single
// change waits for as long as its session does.
func (s *tableStore) briefly(ctx context.Context, c *sql.Conn, changes int, f func() error) error {
	if changes < 2 || s.limited.Load() {
		return f()
	}
	if _, err := c.ExecContext(ctx, setBrief); err != nil {
		return err
	}
	err := f()
	if _, failed := c.ExecContext(ctx, restoreBrief); failed != nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // the pool drops it
	}
	return err
}

// again repeats a statement that lost a deadlock.
func again(ctx context.Context, f func() error) error {
	for i := 0; ; i++ {
		err := f()
		if number(err) != lockDeadlock || i == repeats {
			return err
		}
		select {
		case <-time.After(time.Millisecond + rand.N(10*time.Millisecond)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// inspect checks once that statements are committed when they end, and how their waits are limited.
func (s *tableStore) inspect(ctx context.Context, c *sql.Conn) error {
	if s.inspected.Load() {
		return nil
	}
	var autocommit, limited bool
	if err := c.QueryRowContext(ctx, `SELECT @@autocommit, 0 /*M!100106 + 1 */`).Scan(&autocommit, &limited); err != nil {
		return err
	}
	if !autocommit {
		return fmt.Errorf("%w: the data source name turns autocommit off, which this engine needs", engine.ErrDenied)
	}
	s.limited.Store(limited)
	s.inspected.Store(true)
	return nil
}

// list joins the literals of several values.
func list[T ~string | ~[]byte](values []T) string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = literal([]byte(v))
	}
	return strings.Join(all, ", ")
}
