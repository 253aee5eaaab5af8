package fault_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/fault"
)

// A world of one server, one connection to it and a client that is dead or alive.
func liveWorld(t *testing.T) (*fault.Live, *redistest.Server, *redis.Client) {
	t.Helper()
	logging.Disable()
	s := redistest.Start(t)
	p, err := redistest.LaunchProxy(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	return &fault.Live{
		Clocks:    map[string]func(time.Duration) error{"a": func(time.Duration) error { return nil }},
		Stores:    map[string]fault.Store{"node1": s},
		Links:     map[string]*redistest.Proxy{"a-node1": p},
		Copies:    map[string]fault.Copier{"node1": copies{s}},
		Failovers: map[string]func() error{"node1": func() error { s.Restart(); return nil }},
	}, s, rdb
}

// copies are copies of nothing.
type copies struct{ *redistest.Server }

func (copies) Copy() (bool, error)      { return true, nil }
func (c copies) Restore() (bool, error) { c.Kill(); return true, nil }

// set reports whether a write is confirmed in a time.
func set(t *testing.T, rdb *redis.Client, key string, timeout time.Duration) bool {
	t.Helper()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		err := rdb.Set(ctx, key, 1, time.Minute).Err()
		cancel()
		if err == nil {
			return true
		}
	}
	return false
}

// timeout is how long a write may take that has to be confirmed on a slow
// machine; one that must not be is waited for shortly.
func timeout(confirmed bool) time.Duration {
	if confirmed {
		return 20 * time.Second
	}
	return 200 * time.Millisecond
}

func TestFaultsOfALiveWorld(t *testing.T) {
	for line, want := range map[string]struct{ during, after bool }{
		"cut a-node1 at start until b:on":          {false, true},
		"blackhole a-node1 at start until b:on":    {false, true},
		"deafen a-node1 at start until b:on":       {false, true},
		"mute a-node1 at start until b:on":         {false, true},
		"copy node1 at start":                      {true, true},
		"roll-back node1 at start":                 {true, true},
		"delay a-node1 by 10s at start until b:on": {false, true},
		"pause node1 at start until b:on":          {false, true},
		"kill node1 at start":                      {false, false},
		"restart node1 at start":                   {true, true},
		"restart-empty node1 at start":             {true, true},
		"failover node1 at start":                  {true, true},
		"lose-reply a-node1 match during at start": {false, true},
		"step-clock a by 1s at start":              {true, true},
	} {
		t.Run(line, func(t *testing.T) {
			live, _, rdb := liveWorld(t)
			f, err := fault.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			i := fault.NewInjector(live, f)
			i.Start()
			if f.Kind != fault.LoseReply && len(i.Missed()) != 0 {
				t.Errorf("missed %v", i.Missed())
			}
			if f.Kind == fault.LoseReply {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				if rdb.Set(ctx, "during", 1, time.Minute).Err() == nil {
					t.Error("the reply was not lost")
				}
			} else if got := set(t, rdb, "during", timeout(want.during)); got != want.during {
				t.Errorf("during the fault a write is confirmed: %v", got)
			}
			if err := i.Point(t.Context(), "b", "on"); err != nil {
				t.Fatal(err)
			}
			if got := set(t, rdb, "after", timeout(want.after)); got != want.after {
				t.Errorf("after it a write is confirmed: %v", got)
			}
			if err := i.Stop(); err != nil {
				t.Error(err)
			}
			if len(i.Hits()) != 1 {
				t.Errorf("hits %v, missed %v", i.Hits(), i.Missed())
			}
		})
	}
}

// none is a server of which there is no copy: each fault comes too late.
type none struct{}

func (none) Copy() (bool, error)    { return false, nil }
func (none) Restore() (bool, error) { return false, nil }

func TestWhatComesTooLateIsMissed(t *testing.T) {
	for _, line := range []string{"copy node1 at start", "roll-back node1 at start"} {
		live, _, rdb := liveWorld(t)
		live.Copies["node1"] = none{}
		f, err := fault.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		i := fault.NewInjector(live, f)
		i.Start()
		if err := i.Stop(); err != nil || len(i.Missed()) != 1 {
			t.Errorf("%s: %v, missed %v", line, err, i.Missed())
		}
		if !set(t, rdb, "after", timeout(true)) {
			t.Errorf("%s: the server does not run", line)
		}
	}
}

func TestWhatCannotHappenIsAnError(t *testing.T) {
	for _, line := range []string{
		"kill nobody at start", "cut b-node1 at start", "step-clock b by 1s at start", "restart a-node1 at start", "copy a at start", "roll-back node2 at start", "step-clock node1 by 1s at start",
	} {
		live, _, _ := liveWorld(t)
		f, err := fault.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		i := fault.NewInjector(live, f)
		i.Start()
		if i.Stop() == nil {
			t.Errorf("%s happened", line)
		}
	}
}
