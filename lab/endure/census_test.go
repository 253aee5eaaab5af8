package endure

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The census counts keys by kind and connections by name, and finds what must not be there.
func TestCensus(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(func(o *redis.Options) { o.ClientName = "judge" })
	name := func(age time.Duration) string {
		return fmt.Sprintf("%s:%d:mutex:measured:1", freshName, time.Now().Add(-age).Unix())
	}
	for key, ttl := range map[string]time.Duration{
		"endure:{steady:measured:0}":                        time.Minute,
		"endure:{steady:measured:0}:line":                   time.Minute,
		"endure:{" + name(time.Minute) + "}":                time.Minute,
		"endure:{" + name(2*longestName) + "}":              time.Minute,
		"endure:{guarded:1}":                                longestKey + time.Minute,
		"endure:{guarded:2}:line":                           0,
		"endure:{" + name(time.Minute) + "/latch/77}":       0,
		"endure:client:qenf9lmc5kofp":                       time.Hour - time.Minute,
		"endure:client:long":                                2 * time.Hour,
		"endure:history":                                    6 * 24 * time.Hour,
		"endure:{x}:queue":                                  time.Minute,
		"endure:" + strings.Repeat("something ", 3):         time.Minute,
		"other:{guarded:1}":                                 time.Minute,
		"endure:{" + name(2*longestName) + "/latch/7}:line": time.Minute,
	} {
		if err := rdb.Set(t.Context(), key, "x", ttl).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, who := range []string{measured, measured, visitorName + "0-7"} {
		if err := s.Client(func(o *redis.Options) { o.ClientName = who }).Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := redisCensus(t.Context(), []string{s.Addr()}, []string{s.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"core": 5, "line": 3, "client": 2, "history": 1, "other": 3}; !maps.Equal(c.Keys, want) {
		t.Errorf("keys %v, want %v", c.Keys, want)
	}
	if c.Connections != 2 || c.Visitors != 1 || c.Memory <= 0 {
		t.Errorf("%d connections, %d of visitors, %d bytes", c.Connections, c.Visitors, c.Memory)
	}
	if len(c.Eternal) != 2 {
		t.Errorf("without a TTL: %q", c.Eternal)
	}
	slices.Sort(c.Overstayed)
	if len(c.Overstayed) != 7 {
		t.Errorf("%d overstayed: %q", len(c.Overstayed), c.Overstayed)
	}
}

// Each thing that a member may leave is reported, and nothing else.
func TestFarewell(t *testing.T) {
	for want, f := range map[string]farewell{
		"":                                 {},
		"Close of me: two are left":        {Err: "two are left"},
		"me has 2 goroutines after Close":  {Left: []string{"goroutine 7", "goroutine 8"}},
		"me has 3 open sockets":            {Open: 3},
		"me: mutex: WRONGTYPE of the core": {Load: Tally{Wrong: []string{"mutex: WRONGTYPE of the core"}}},
	} {
		var said []string
		f.check("me", func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		if want == "" && len(said) > 0 || want != "" && (len(said) != 1 || !strings.Contains(said[0], want)) {
			t.Errorf("%+v: said %q, want %q", f, said, want)
		}
	}
}

// A run is hollow if it did not do one of the things that it is about.
func TestHollow(t *testing.T) {
	whole := func() Report {
		rep := Report{Load: Tally{Renewals: 1, Works: map[string]int{}}, Others: Tally{Granted: 1}, Entries: 1, Visits: map[string]int{}}
		for _, w := range works() {
			rep.Load.Works[w.name] = 1
		}
		for _, end := range visitEnds() {
			rep.Visits[string(end)] = 1
		}
		return rep
	}
	for want, empty := range map[string]func(*Report){
		"":              func(*Report) {},
		`done "recall"`: func(r *Report) { delete(r.Load.Works, "recall") },
		"no visitor was stopped past its TTL, then closed": func(r *Report) { delete(r.Visits, string(stoppedClosed)) },
		"2 of 4 samples":            func(r *Report) { r.Samples = []Sample{{Unsettled: true}, {}, {Unsettled: true}, {}} },
		"3 of 24 operations failed": func(r *Report) { r.Load.Done, r.Load.Refused, r.Load.Failed = 20, 1, 3 },
		"0 renewals":                func(r *Report) { r.Load.Renewals = 0 },
		"0 entries":                 func(r *Report) { r.Entries = 0 },
	} {
		rep := whole()
		empty(&rep)
		said := rep.hollow()
		if want == "" && len(said) > 0 || want != "" && (len(said) != 1 || !strings.Contains(said[0], want)) {
			t.Errorf("said %q, want %q", said, want)
		}
	}
}
