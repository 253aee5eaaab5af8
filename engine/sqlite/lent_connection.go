package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"time"
)

// The pause before a transaction is repeated because another process writes: that takes some
// 50 µs, or as long as a disk takes to write.
const (
	shortestPause = 100 * time.Microsecond
	longestPause  = 5 * time.Millisecond
)

// lentConnection is a connection of the pool during one call. Its statements are not interrupted: they
// do not wait for other processes, and a transaction always has an end.
type lentConnection struct {
	ctx  context.Context
	conn *sql.Conn
}

// do runs f on a connection, again if another process had the lock. slot has room for as many
// calls as may run at the same time. do returns when ctx ends; a disk that hangs then has the
// connection for as long as it does so.
func (s *fileStore) do(ctx context.Context, slot chan struct{}, f func(c *lentConnection) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case slot <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	done := make(chan error, 1)
	go func() {
		err := s.repeat(ctx, f)
		<-slot
		done <- explained(err)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// repeat runs f until it succeeds or fails for another reason than a lock.
func (s *fileStore) repeat(ctx context.Context, f func(c *lentConnection) error) error {
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := s.once(ctx, f)
		if err == nil || !busy(err) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// once runs f on a connection that does not wait for locks by itself, however db was opened.
func (s *fileStore) once(ctx context.Context, f func(c *lentConnection) error) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	c := &lentConnection{ctx: context.WithoutCancel(ctx), conn: conn}
	restore, err := c.set("busy_timeout", 0)
	if err != nil {
		return err
	}
	defer restore()
	return f(c)
}

// set sets a pragma of the connection, unless it has the value, and returns a function that sets
// it to the old one.
func (c *lentConnection) set(pragma string, value int) (restore func(), err error) {
	var was int
	if err := c.conn.QueryRowContext(c.ctx, "PRAGMA "+pragma).Scan(&was); err != nil {
		return nil, err
	}
	if was == value {
		return func() {}, nil
	}
	if err := c.exec(fmt.Sprintf("PRAGMA %s = %d", pragma, value)); err != nil {
		return nil, err
	}
	return func() {
		if c.exec(fmt.Sprintf("PRAGMA %s = %d", pragma, was)) != nil {
			c.discard()
		}
	}, nil
}

// transaction runs f in a transaction that has the right to write from its start.
func (c *lentConnection) transaction(f func() error) (err error) {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil && c.exec("ROLLBACK") != nil {
			c.discard()
		}
	}()
	if err := f(); err != nil {
		return err
	}
	return c.exec("COMMIT")
}

func (c *lentConnection) exec(query string, args ...any) error {
	_, err := c.conn.ExecContext(c.ctx, query, args...)
	return err
}

// change returns the number of rows that a statement changed.
func (c *lentConnection) change(query string, args ...any) (int64, error) {
	r, err := c.conn.ExecContext(c.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// discard makes the pool drop the connection.
func (c *lentConnection) discard() {
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn }) // which is what it returns
}
