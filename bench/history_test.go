package main

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A pair is two commands, and without a history nothing is written to one; with it, each pair is one event.
func TestCommandsOfAHistory(t *testing.T) {
	const pairs = 200
	for _, c := range []struct {
		name   string
		events int
	}{{"holdfast", 0}, {recording, 1 + pairs}} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t)
			m := newRedisMeter(server.Addr())
			defer m.close()
			who, err := contenderNamed(c.name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := who.open(settings{addrs: []string{server.Addr()}, callers: 1, ttl: 15 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			l := p.lock("x")
			pair := func() {
				if err := l.Lock(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := l.Unlock(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			pair() // loads the scripts
			before, err := m.read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for range pairs {
				pair()
			}
			after, err := m.read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n := after.calls["evalsha"] + after.calls["eval"] - before.calls["evalsha"] - before.calls["eval"]; n != 2*pairs {
				t.Errorf("%d pairs are %d commands", pairs, n)
			}
			p.close() // writes what was recorded
			if after, err = m.read(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := after.calls["xadd"]; n != c.events {
				t.Errorf("%d events were written, want %d", n, c.events)
			}
		})
	}
}
