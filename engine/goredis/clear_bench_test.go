package goredis_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// BenchmarkClearing reports what the scripts cost the server that clear up after many, which GUARANTEES bounds by 3 ms:
// the CPU time of its main thread for each script, as the least of three runs of the same sequence, since a busy machine
// adds milliseconds to single calls. HOLDFAST_LONG=1 plays 100,000 waiters and 20,000 readers. Run it with -benchtime 1x.
func BenchmarkClearing(b *testing.B) {
	keys := script.KeysOf([]byte(prefix + ":{crowd}"))
	waiters, readers := redistest.Scale(5000, 100_000), redistest.Scale(5000, 20_000)
	acquire := func(c *crowd, r engine.Request) script.Call {
		return c.scripts.Acquire(keys, script.Acquire{
			ID: r.ID, Kind: string(r.Kind), Capacity: r.Capacity, Weight: r.Weight, TTL: r.TTL, Queue: r.Queue,
		})
	}
	reader, writer := readersAndWriter()
	type play func(c *crowd) (first script.Call)
	plays := map[string]play{
		"expired readers, a writer": func(c *crowd) script.Call {
			c.many(readers, reader, engine.Granted)
			c.pass(time.Minute)
			return acquire(c, writer)
		},
		"readers that enter": func(c *crowd) script.Call {
			held := hold(b, c.engine, writer)
			c.many(readers, reader, engine.Queued)
			return c.scripts.Release(keys, script.Release{ID: held.ID, Token: held.Token})
		},
		"a mark": func(c *crowd) script.Call {
			held := hold(b, c.engine, sorts()["mutex"])
			c.many(readers, sorts()["mutex"], engine.Queued)
			return c.scripts.Release(keys, script.Release{ID: held.ID, Token: held.Token, Mark: time.Hour})
		},
		"recalled readers": func(c *crowd) script.Call {
			recalled := reader
			for i := range 4 * queue.DefaultPortion {
				recalled.ID = fmt.Sprintf("c%d.x", i) + engine.RecallSuffix
				hold(b, c.engine, recalled)
			}
			return acquire(c, writer)
		},
		"waiters that are gone": func(c *crowd) script.Call {
			r := sorts()["mutex"]
			held := hold(b, c.engine, r)
			stream, err := open(b, c.rdb).Listen(b.Context(), prefix, "gone", func(engine.Wakeup) {})
			must(b, err)
			for i := range 4 * queue.DefaultPortion {
				r.ID = fmt.Sprint("gone.", i)
				c.acquire(r)
			}
			must(b, stream.Close())
			for channel := prefix + ":wake:gone"; c.rdb.PubSubNumSub(b.Context(), channel).Val()[channel] > 0; {
				must(b, b.Context().Err())
			}
			return c.scripts.Release(keys, script.Release{ID: held.ID, Token: held.Token})
		},
		"64 polls in a batch": func(c *crowd) script.Call {
			r := sorts()["mutex"]
			hold(b, c.engine, r)
			c.many(waiters, r, engine.Queued)
			c.pass(2 * time.Minute)
			var polls []script.Call
			for i := range script.MaxBatch {
				r.ID = fmt.Sprint("live.", i)
				c.acquire(r)
				polls = append(polls, acquire(c, r))
			}
			return c.scripts.Batch(polls)
		},
	}
	for name, r := range sorts() {
		plays["dead waiters, "+name] = func(c *crowd) script.Call {
			held := hold(b, c.engine, r)
			c.many(waiters, r, engine.Queued)
			c.pass(4 * time.Second)
			return c.scripts.Release(keys, script.Release{ID: held.ID, Token: held.Token})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plays)) {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				var least []time.Duration
				for range 3 {
					c := newCrowd(b)
					load(c, keys)
					least = leastOf(least, c.sequence(plays[name](c), keys))
				}
				slices.Sort(least)
				ms := func(i int) float64 { return float64(least[i].Microseconds()) / 1000 }
				b.ReportMetric(float64(len(least)), "scripts")
				b.ReportMetric(ms(len(least)/2), "ms-p50")
				b.ReportMetric(ms(len(least)*99/100), "ms-p99")
				b.ReportMetric(ms(len(least)-1), "ms-max")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// load has the server load the scripts, which costs it up to 2.3 ms once for each.
func load(c *crowd, keys script.Keys) {
	r := requestOf("other", "other.1")
	held := hold(c.TB, c.engine, r)
	release(c.TB, c.engine, r.Resource, held)
	must(c.TB, c.rdb.Do(c.Context(), c.scripts.Clear(keys).Text()...).Err())
	must(c.TB, c.rdb.Do(c.Context(), c.scripts.Batch([]script.Call{c.scripts.Clear(keys)}).Text()...).Err())
}

// sequence makes a call and then clears up until nothing changes, and returns what each script cost.
func (c *crowd) sequence(call script.Call, keys script.Keys) (each []time.Duration) {
	for was := (-1); ; call = c.scripts.Clear(keys) {
		before := c.cpu()
		must(c.TB, c.rdb.Do(c.Context(), call.Text()...).Err())
		each = append(each, c.cpu()-before)
		is := c.waiting()*2 + c.leases()
		if is == was {
			return each
		}
		was = is
	}
}

// cpu returns the CPU time of the server's main thread.
func (c *crowd) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", c.server.PID()))
	must(c.TB, err)
	var ns int64
	_, err = fmt.Sscan(strings.Fields(string(text))[0], &ns)
	must(c.TB, err)
	return time.Duration(ns)
}

// leastOf returns the least of each call of two runs; a is nil before the first.
func leastOf(a, b []time.Duration) []time.Duration {
	if a == nil {
		return b
	}
	n := min(len(a), len(b))
	for i := range n {
		a[i] = min(a[i], b[i])
	}
	return a[:n]
}
