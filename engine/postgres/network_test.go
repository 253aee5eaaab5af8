package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// network is the connections of a pool and its engine as a test may disturb them: those that
// listen, which are known by their LISTEN.
type network struct {
	silent    atomic.Bool  // nothing arrives on connections that listen
	deaf      atomic.Bool  // no notification arrives, as behind a pooler in transaction mode
	listening atomic.Int32 // connections that listen
	opened    atomic.Int32
}

func (n *network) pool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	return newPool(t, dsn, func(c *pgxpool.Config) {
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, kind, addr string) (net.Conn, error) {
			conn, err := dial(ctx, kind, addr)
			if err != nil {
				return nil, err
			}
			n.opened.Add(1)
			return &disturbed{Conn: conn, network: n}, nil
		}
	})
}

type disturbed struct {
	net.Conn
	network *network
	listens atomic.Bool
	once    sync.Once

	passed []byte // complete messages, not read yet
	rest   []byte // the start of a message
}

func (d *disturbed) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("LISTEN ")) && !d.listens.Swap(true) {
		d.network.listening.Add(1)
	}
	return d.Conn.Write(b)
}

func (d *disturbed) Close() error {
	d.once.Do(func() {
		if d.listens.Load() {
			d.network.listening.Add(-1)
		}
	})
	return d.Conn.Close()
}

// Read passes on whole messages: a type and a length, of which the type does not count.
func (d *disturbed) Read(b []byte) (int, error) {
	for len(d.passed) == 0 {
		chunk := make([]byte, 32<<10)
		n, err := d.Conn.Read(chunk)
		if err != nil {
			return 0, err
		}
		if d.network.silent.Load() && d.listens.Load() {
			continue
		}
		d.rest = append(d.rest, chunk[:n]...)
		for len(d.rest) >= 5 {
			size := 1 + int(binary.BigEndian.Uint32(d.rest[1:]))
			if len(d.rest) < size {
				break
			}
			const notification = 'A'
			if d.rest[0] != notification || !d.network.deaf.Load() {
				d.passed = append(d.passed, d.rest[:size]...)
			}
			d.rest = d.rest[size:]
		}
	}
	n := copy(b, d.passed)
	d.passed = d.passed[n:]
	return n, nil
}
