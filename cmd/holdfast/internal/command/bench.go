package command

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/benchmark"
)

// benchCmd is `holdfast bench`. What it measures is package internal/benchmark.
type benchCmd struct {
	Callers int           `default:"64" placeholder:"N" help:"Number of callers in the parts with many, 1 to 10000. Default: ${default}."`
	For     time.Duration `default:"2s" placeholder:"D" help:"Duration of each of the four parts. Default: ${default}."`
	JSON    bool          `help:"Print the figures as one JSON object."`
}

// Help is the long text of --help.
func (*benchCmd) Help() string {
	return `Measures what locks cost on the store of --store, from this machine: a bare round trip (an empty script, SELECT 1, a read), a free lock, many locks at once,
many callers of one lock, and the hand-off between two clients. It puts the maximum load on the store. Its
resources have their own names below the prefix; what remains of them expires by its TTL.

A worst caller of 1 is fair: every caller got the same number of turns. The longest wait belongs to the rate.

Examples:
	holdfast bench
	holdfast --store redis://cache:6379 bench --callers 256 --for 5s
	holdfast --store postgres://app@db/app bench
	holdfast bench --json | jq .shared.turns_per_second`
}

// Run measures and prints.
func (c *benchCmd) Run(e *env) error {
	if c.Callers < 1 || c.Callers > 10_000 || c.For <= 0 {
		return fail(exitUsage, "--callers is 1 to 10000, and --for more than 0")
	}
	return e.with(func(ctx context.Context, s *session) error {
		r, err := c.measure(ctx, e, s)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(e.stdout, benchJSON(r))
		}
		return c.print(e, s.at, r)
	})
}

func (c *benchCmd) measure(ctx context.Context, e *env, s *session) (benchmark.Result, error) {
	other, err := e.open()
	if err != nil {
		return benchmark.Result{}, err
	}
	defer other.close()
	if _, err := s.now(ctx); err != nil {
		return benchmark.Result{}, err
	}
	return benchmark.Run(ctx, benchmark.Config{
		Client: s.Client, Other: other.Client, Callers: c.Callers, For: c.For,
		RoundTrip: func(ctx context.Context) error { return s.store.Nodes()[0].RoundTrip(ctx, e.prefix) },
	})
}

func (c *benchCmd) print(e *env, at string, r benchmark.Result) error {
	fmt.Fprintf(e.stdout, "%s, %v for each part\n\n", at, c.For)
	t := table(e.stdout, "\tP50\tP99\tRATE\tWORST CALLER\tLONGEST WAIT")
	times := func(what string, x benchmark.Times) {
		fmt.Fprintf(t, "%s\t%s\t%s\t\t\t\n", what, micro(x.P50), micro(x.P99))
	}
	turns := func(what string, x benchmark.Turns) {
		fmt.Fprintf(t, "%s\t\t\t%.0f/s\t%.3f\t%s\n", fmt.Sprintf(what, x.Callers), x.PerSecond, x.WorstCaller, micro(x.LongestWait))
	}
	times("bare round trip", r.RoundTrip)
	times("lock and unlock, free", r.Free)
	turns("%d callers, a resource each", r.Spread)
	turns("%d callers, one resource", r.Shared)
	times("hand-off between two clients", r.HandOff)
	return t.Flush()
}

// micro formats a duration that may be short.
func micro(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.0f µs", float64(d.Nanoseconds())/1000)
	}
	return short(d)
}

// benchJSON is what --json prints: microseconds, and turns per second.
func benchJSON(r benchmark.Result) any {
	type times struct {
		Count int     `json:"count"`
		P50   float64 `json:"p50_us"`
		P99   float64 `json:"p99_us"`
	}
	type turns struct {
		Callers     int     `json:"callers"`
		PerSecond   float64 `json:"turns_per_second"`
		WorstCaller float64 `json:"worst_caller"`
		LongestWait float64 `json:"longest_wait_us"`
	}
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	timesOf := func(t benchmark.Times) times { return times{t.Count, us(t.P50), us(t.P99)} }
	turnsOf := func(t benchmark.Turns) turns {
		return turns{t.Callers, t.PerSecond, t.WorstCaller, us(t.LongestWait)}
	}
	return struct {
		RoundTrip times `json:"round_trip"`
		Free      times `json:"free"`
		Spread    turns `json:"spread"`
		Shared    turns `json:"shared"`
		HandOff   times `json:"hand_off"`
		Version   int   `json:"version"`
	}{timesOf(r.RoundTrip), timesOf(r.Free), turnsOf(r.Spread), turnsOf(r.Shared), timesOf(r.HandOff), jsonVersion}
}
