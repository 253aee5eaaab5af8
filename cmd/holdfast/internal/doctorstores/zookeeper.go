package doctorstores

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// zooKeeper is an ensemble and its answers.
type zooKeeper struct {
	examination
	conn    *zk.Conn
	root    string
	servers []*zkServer
	voters  []string // the addresses among which servers vote; none: one server, or they are not disclosed
}

// ZooKeeper examines the servers of a connection, host:port each. root is the znode that the engine uses.
func ZooKeeper(ctx context.Context, s Subject, conn *zk.Conn, servers []string, root string) []diagnosis.Finding {
	z := &zooKeeper{examination: examination{Subject: s}, conn: conn, root: root}
	asks, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var asked sync.WaitGroup
	for _, addr := range servers {
		srv := &zkServer{Place: diagnosis.Place(addr)}
		z.servers = append(z.servers, srv)
		asked.Go(func() { srv.ask(asks) })
	}
	reached := z.reach(ctx, "ZooKeeper, by a sync", zkRefused, z.ping)
	asked.Wait()
	if reached {
		z.askVoters(asks)
	}
	z.quorum()
	z.version()
	z.sessions()
	z.load()
	if !reached {
		return z.findings
	}
	z.try(ctx, "look at the server's load: messages are znodes, which waiters watch")
	z.fsync(asks)
	if !z.failed() {
		z.leaderClock(asks)
	}
	z.ttl()
	return z.findings
}

// zkCall makes a call of the connection, which has no ctx.
func zkCall[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (z *zooKeeper) ping(ctx context.Context) error {
	_, err := zkCall(ctx, func() (string, error) { return z.conn.Sync("/") })
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (the connection is %q)", err, z.conn.State())
	}
	return err
}

// zkRefused reports whether the servers refuse the credentials.
func zkRefused(err error) bool {
	return errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrNoAuth)
}

// askVoters reads the configuration that the ensemble shares.
func (z *zooKeeper) askVoters(ctx context.Context) {
	text, err := zkCall(ctx, func() ([]byte, error) {
		data, _, err := z.conn.Get("/zookeeper/config")
		return data, err
	})
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || !strings.HasPrefix(name, "server.") || strings.Contains(value, ":observer") {
			continue
		}
		z.voters = append(z.voters, value)
	}
}

// leaderClock reads the clock of the leader, which only the time of a write shows: old documents are deleted by it.
func (z *zooKeeper) leaderClock(ctx context.Context) {
	c := z.check("clock")
	r, err := diagnosis.ReadClock(func() (time.Time, error) {
		stat, err := zkCall(ctx, func() (*zk.Stat, error) { return z.conn.Set(z.root+"/r", []byte{}, -1) })
		if err != nil {
			return time.Time{}, err
		}
		return time.UnixMilli(stat.Mtime), nil
	})
	if !r.Known {
		c.Unanswered(err)
		return
	}
	r.Error += time.Millisecond // it is in whole ones
	c = c.With("ahead_ms", diagnosis.Millis(r.Ahead))
	c.WarnIf(r.Ahead.Abs() > clocksApart, "let all machines set their clocks by NTP, slewing",
		"the leader's is %s: marks (Once, Job) follow the clocks of clients, old documents are deleted by that of the leader, and one of the two is wrong", r)
	c.Otherwise("the leader's is %s; leases do not depend on it, marks follow the clocks of clients", r)
}
