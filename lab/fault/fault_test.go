package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/lab/fault"
)

func moments() *rapid.Generator[fault.When] {
	return rapid.Custom(func(t *rapid.T) fault.When {
		if rapid.Bool().Draw(t, "timed") {
			return fault.After(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "after")))
		}
		w := fault.At(rapid.SampledFrom([]string{"a", "b", "node-1"}).Draw(t, "who"), rapid.SampledFrom([]string{"held", "acquire.setnx"}).Draw(t, "point"))
		w.Nth = rapid.IntRange(1, 20).Draw(t, "nth")
		return w
	})
}

// faults draws any fault that passes Check.
func faults() *rapid.Generator[fault.Fault] {
	return rapid.Custom(func(t *rapid.T) fault.Fault {
		f := fault.Fault{
			Kind:   rapid.SampledFrom(fault.Kinds()).Draw(t, "kind"),
			Target: rapid.StringMatching(`[a-z][a-z0-9-]{0,8}`).Draw(t, "target"),
			At:     moments().Draw(t, "at"),
		}
		switch f.Kind {
		case fault.Delay, fault.SlowDisk:
			f.By = time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "by"))
		case fault.StepClock:
			f.By = -time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "by"))
		case fault.LoseReply:
			f.Match = rapid.StringMatching(`[a-z][a-z0-9:]{0,8}`).Filter(func(s string) bool { return !strings.Contains(s, ":") }).Draw(t, "match")
		case fault.Stall:
			f.At = fault.At(f.Target, "held")
		}
		switch rapid.IntRange(0, 2).Draw(t, "end") {
		case 1:
			f.Until = moments().Draw(t, "until")
		case 2:
			f.For = time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "for"))
		}
		if f.Check() != nil {
			f.Until, f.For = fault.When{}, 0 // of a kind that has no end
		}
		return f
	})
}

func TestFaultsPrintAndParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fault.Schedule(rapid.SliceOf(faults()).Draw(t, "schedule"))
		again, err := fault.ParseSchedule(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(again) != fmt.Sprint(s) || len(again) != len(s) {
			t.Fatalf("%v\nbecame\n%v", s, again)
		}
		for i := range s {
			if s[i] != again[i] {
				t.Fatalf("%+v became %+v", s[i], again[i])
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{
		"pause a at a:release.get until b:held", "kill a at a:acquire.setnx", "delay b-node1 by 40ms at 1.2s for 300ms",
		"lose-reply a-node1 match stock at start", "step-clock a by -10s at a:acquire.node1#2", "stall a at b:held", "kill a at start for 1s",
		"kill a", "kill a by 1s at start", "bend a at start", "kill a at a:", "kill a at x#0", "pause a at start until 1s for 1s", "pause a at -1s",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		parsed, err := fault.Parse(line)
		if err != nil {
			return
		}
		again, err := fault.Parse(parsed.String())
		if err != nil || again != parsed {
			t.Fatalf("%q: %+v became %+v: %v", line, parsed, again, err)
		}
	})
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	for line, word := range map[string]string{
		"kill a":                            "WHEN",
		"kill a by 1s at start":             "only they",
		"bend a at start":                   "bend",
		"kill a at a:":                      "WHO:POINT",
		"kill a at a:x#0":                   "from 1",
		"pause a at start until 1s for 1s":  "one of them",
		"pause a at start at start":         "twice",
		"kill a at start for 1s":            "no end",
		"stall a at b:held":                 "point of a",
		"lose-reply a at start":             "lose-reply",
		"kill a soon start":                 "soon",
		"kill a* at start":                  "target",
		"pause a until start for 1s":        "what time",
		"delay a by -1s at start":           "earlier",
		"lose-reply a match a*b at a:start": "lose-reply",
	} {
		if _, err := fault.Parse(line); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v does not say %q", line, err, word)
		}
	}
}

// record is a world that writes down what happens to it.
type record struct{ lines chan string }

func (r record) Begin(f fault.Fault) (<-chan struct{}, error) {
	r.lines <- "begin " + f.Target
	if f.Kind == fault.LoseReply {
		return make(chan struct{}), nil
	}
	return nil, nil
}

func (r record) End(f fault.Fault) error { r.lines <- "end " + f.Target; return nil }

func inject(t *testing.T, text string) (*fault.Injector, chan string) {
	t.Helper()
	s, err := fault.ParseSchedule(text)
	if err != nil {
		t.Fatal(err)
	}
	r := record{make(chan string, 20)}
	i := fault.NewInjector(r, s...)
	i.Start()
	return i, r.lines
}

func TestFaultsHappenAtTheirMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		i, lines := inject(t, "kill x at 1s\npause y at a:p#2 until b:q\ncut z at start for 2s")
		if got := <-lines; got != "begin z" {
			t.Fatal(got)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := <-lines; got != "begin x" {
			t.Fatal(got)
		}
		for _, at := range [][2]string{{"b", "q"}, {"a", "p"}, {"a", "p"}} {
			if err := i.Point(ctx, at[0], at[1]); err != nil {
				t.Fatal(err)
			}
		}
		if got := <-lines; got != "begin y" {
			t.Fatal(got)
		}
		time.Sleep(time.Second)
		if got := <-lines; got != "end z" {
			t.Fatal(got)
		}
		if err := i.Point(ctx, "x", "p"); !errors.Is(err, fault.ErrKilled) {
			t.Fatalf("a dead client went on: %v", err)
		}
		if err := i.Stop(); err != nil { // b:q was before the pause, so its end is now
			t.Fatal(err)
		}
		if got := <-lines; got != "end y" || len(lines) != 0 || len(i.Missed()) != 0 || len(i.Hits()) != 3 {
			t.Fatal(got, len(lines), i.Missed(), i.Hits())
		}
	})
}

func TestAPauseHoldsItsTarget(t *testing.T) {
	for _, kind := range []string{"pause", "stall"} {
		synctest.Test(t, func(t *testing.T) {
			i, _ := inject(t, kind+" a at a:p until b:q")
			went := make(chan error, 1)
			go func() { went <- i.Point(t.Context(), "a", "p") }()
			synctest.Wait()
			if len(went) != 0 {
				t.Fatal("it went on")
			}
			if err := i.Point(t.Context(), "b", "q"); err != nil {
				t.Fatal(err)
			}
			if err := <-went; err != nil {
				t.Fatal(err)
			}
			if err := i.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// chained is a world in which y is hit only once the fault of x has ended.
type chained struct {
	record
	free chan struct{}
}

func (c chained) Begin(f fault.Fault) (<-chan struct{}, error) {
	if f.Target == "y" {
		<-c.free
	}
	return c.record.Begin(f)
}

func (c chained) End(f fault.Fault) error {
	if f.Target == "x" {
		close(c.free)
	}
	return c.record.End(f)
}

func TestStopEndsWhatAnotherFaultWaitsFor(t *testing.T) {
	for _, text := range []string{"pause x at start for 1h\npause y at 1s for 1h", "pause y at 2s for 1h\npause x at 1s for 1h"} {
		synctest.Test(t, func(t *testing.T) {
			s, err := fault.ParseSchedule(text)
			if err != nil {
				t.Fatal(err)
			}
			c := chained{record{make(chan string, 20)}, make(chan struct{})}
			i := fault.NewInjector(c, s...)
			i.Start()
			time.Sleep(3 * time.Second)
			if err := i.Stop(); err != nil {
				t.Fatal(err)
			}
			if missed := i.Missed(); len(missed) != 0 || len(c.lines) != 4 {
				t.Errorf("missed %v, %d lines of 4", missed, len(c.lines))
			}
		})
	}
}

func TestAHeldOperationEndsWithItsContext(t *testing.T) {
	i, _ := inject(t, "stall a at a:p")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if err := i.Point(ctx, "a", "p"); !errors.Is(err, enough) {
		t.Fatal(err)
	}
	if err := i.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestMissedFaultsAreReported(t *testing.T) {
	i, _ := inject(t, "pause a at a:never until b:q\nlose-reply a match m at start\nkill c at 1h")
	if err := i.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := i.Missed(); len(got) != 3 {
		t.Fatalf("missed only %v", got)
	}
}

func TestAwait(t *testing.T) {
	i, _ := inject(t, "")
	came := make(chan error, 1)
	go func() { came <- i.Await(t.Context(), fault.At("a", "p")) }()
	if err := i.Point(t.Context(), "a", "p"); err != nil {
		t.Fatal(err)
	}
	if err := <-came; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := i.Await(ctx, fault.At("a", "q")); err == nil {
		t.Fatal("it came")
	}
	if err := i.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestABadFaultIsAnError(t *testing.T) {
	i := fault.NewInjector(record{}, fault.Fault{Kind: "bend", Target: "a"})
	i.Start()
	if err := i.Stop(); err == nil {
		t.Fatal("it was taken")
	}
}
