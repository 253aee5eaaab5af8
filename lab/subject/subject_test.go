package subject_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/subject/peer"
)

// openClients makes clients of a subject on servers of their own.
func openClients(t *testing.T, s subject.Subject, ttl time.Duration) func(name string, point subject.Point) subject.Client {
	t.Helper()
	var servers []*redistest.Server
	for range s.Nodes {
		servers = append(servers, redistest.Start(t))
	}
	shared := memory.New()
	return func(name string, point subject.Point) subject.Client {
		setup := subject.Setup{Client: name, TTL: ttl, Point: point}
		for _, server := range servers {
			rdb := redis.NewClient(subject.Connect(server.Addr()))
			t.Cleanup(func() { _ = rdb.Close() })
			setup.Nodes = append(setup.Nodes, rdb)
		}
		if s.Nodes == 0 {
			setup.Engine = shared
		}
		c, err := s.Open(setup)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// In fair weather every subject is a lock: it keeps others out, and lets them in
// after the release, if its release works at all.
func TestEverySubjectLocks(t *testing.T) {
	for _, s := range append(subject.All(), peer.All()...) {
		t.Run(s.ID, func(t *testing.T) {
			open := openClients(t, s, 5*time.Second)
			a, b := open("a", nil), open("b", nil)
			held, err := a.Acquire(t.Context(), "stock")
			if err != nil {
				t.Fatal(err)
			}
			if err := held.Err(); err != nil {
				t.Fatal(err)
			}
			checkTraits(t, s.Traits, held)
			if h, err := b.Try(t.Context(), "stock"); !errors.Is(err, subject.ErrBusy) {
				t.Fatalf("while a holds, b got %v, %v", h, err)
			}
			if s.ID == "set-nx-del" {
				return // b's failure has freed it: that is its hole
			}
			if err := held.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if s.ID == "token-lua-misquoted" {
				return // it is not free now: that is its hole
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			next, err := b.Acquire(ctx, "stock")
			if err != nil {
				t.Fatalf("after the release: %v", err)
			}
			if s.Traits.Tokens && next.Token() <= held.Token() {
				t.Errorf("token %d after %d", next.Token(), held.Token())
			}
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func checkTraits(t *testing.T, traits subject.Traits, h subject.Hold) {
	t.Helper()
	if got := h.Token() != 0; got != traits.Tokens {
		t.Errorf("token %d", h.Token())
	}
	if got := !h.Until().IsZero(); got != traits.Windows {
		t.Errorf("until %v", h.Until())
	}
	if got := h.Lost() != nil; got != traits.ReportsLoss {
		t.Error("Lost is not what the traits say")
	}
	if err := h.Renew(t.Context()); errors.Is(err, subject.ErrNoRenewal) == traits.Renews || traits.Renews && err != nil {
		t.Errorf("renew: %v", err)
	}
}

// The error of a point ends an old lock's operation at once, as death would.
func TestAPointStopsItsOperation(t *testing.T) {
	for _, s := range subject.Old() {
		t.Run(s.ID, func(t *testing.T) {
			var points atomic.Int64
			c := openClients(t, s, time.Minute)("a", func(context.Context, string) error {
				points.Add(1)
				return subject.ErrDead
			})
			// Some have points only in a release, some only where it is taken.
			h, err := c.Try(t.Context(), "stock")
			if err == nil {
				err = h.Release(t.Context())
			}
			if err == nil {
				if _, err = c.Try(t.Context(), "stock"); err == nil {
					_, err = c.Try(t.Context(), "stock")
				}
			}
			if n := points.Load(); n != 1 || !errors.Is(err, subject.ErrDead) {
				t.Fatalf("after %d points: %v", n, err)
			}
		})
	}
}

// A release by WATCH takes three trips to the server and an UNWATCH, by script one.
func TestTripsOfARelease(t *testing.T) {
	for id, want := range map[string]int{"token-watch": 3, "token-lua": 1} {
		s, err := subject.All().Find(id)
		if err != nil {
			t.Fatal(err)
		}
		server := redistest.Start(t)
		trips := &counter{}
		rdb := server.Client(func(o *redis.Options) { *o = *subject.Connect(server.Addr()) })
		rdb.AddHook(trips)
		c, err := s.Open(subject.Setup{Client: "a", TTL: time.Second, Nodes: []*redis.Client{rdb}})
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Acquire(t.Context(), "stock")
		if err != nil {
			t.Fatal(err)
		}
		trips.n, trips.said = 0, nil
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if trips.n != want {
			t.Errorf("%s: %d trips %v, want %d", id, trips.n, trips.said, want)
		}
	}
}

// counter counts what is sent.
type counter struct {
	n    int
	said []string
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n++
		c.said = append(c.said, cmd.Name())
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n++
		c.said = append(c.said, fmt.Sprint(len(cmds)))
		return next(ctx, cmds)
	}
}

func TestFindNamesWhatThereIs(t *testing.T) {
	if _, err := subject.All().Find("nothing"); err == nil {
		t.Fatal("found")
	}
	seen := map[string]bool{}
	for _, s := range append(subject.All(), peer.All()...) {
		if seen[s.ID] {
			t.Errorf("%s twice", s.ID)
		}
		seen[s.ID] = true
	}
	if len(subject.Old()) != 21 {
		t.Errorf("%d old locks", len(subject.Old()))
	}
}

func TestClockSteps(t *testing.T) {
	c := &subject.Clock{}
	c.Step(-time.Hour)
	if ahead := time.Until(c.Now()); ahead > -59*time.Minute {
		t.Fatalf("ahead by %v", ahead)
	}
	if off := time.Until(c.Real(c.Now())); off > time.Second || off < -time.Second {
		t.Fatalf("real is off by %v", off)
	}
}
