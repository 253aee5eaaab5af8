package web

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func instant(seconds float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func held(id string, left time.Duration) holdfast.Holder {
	return holdfast.Holder{ID: id, Name: "api", Host: "h", PID: 1, Since: instant(0), TTL: left, Token: 7}
}

func waiting(ids ...string) (out []holdfast.Waiter) {
	for _, id := range ids {
		out = append(out, holdfast.Waiter{ID: id, Name: "worker", Since: instant(1)})
	}
	return out
}

// What one snapshot does not show: which lease is overdue, whether the queue grows, and what has changed.
func TestObserver(t *testing.T) {
	var o observer
	see := func(at float64, holders []holdfast.Holder, waiters []holdfast.Waiter) *row {
		s := holdfast.Snapshot{Resource: "r", Kind: "mutex", Capacity: 1, Holders: holders, Waiters: waiters}
		return newRow(s, o.see(s, instant(at)), instant(at))
	}
	if r := see(1, []holdfast.Holder{held("a", 5*time.Second)}, nil); r.Condition != isHeld || len(r.Changes()) != 0 {
		t.Errorf("at first %s, %+v", r.Condition, r.Changes())
	}
	see(2, []holdfast.Holder{held("a", 15*time.Second)}, nil)
	if r := see(9, []holdfast.Holder{held("a", 8*time.Second)}, waiting("b")); r.Condition != isContended || r.OldestWait != 8*time.Second {
		t.Errorf("before half of the TTL: %s, %v", r.Condition, r.OldestWait)
	}
	r := see(11, []holdfast.Holder{held("a", 6*time.Second)}, waiting("b", "c"))
	if r.Condition != isOverdue || r.Growth() != 2 || r.Span() != 10*time.Second || r.Held != 11*time.Second {
		t.Errorf("after it: %s, %+d in %v, held for %v", r.Condition, r.Growth(), r.Span(), r.Held)
	}
	r = see(20, []holdfast.Holder{held("b", 15*time.Second)}, nil)
	var got []string
	for _, c := range r.Changes() {
		got = append(got, c.ID+" "+c.What)
	}
	want := []string{"c no longer waits", "b granted after a wait", "a ended, with its renewal overdue", "c began to wait", "b began to wait"}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if c := r.Changes(); c[0].Token != 0 || c[1].Token != 7 || c[2].Token != 7 {
		t.Errorf("the tokens of the changes are in %+v", c)
	}
	o.forget(instant(20 + 2*forgetAfter.Seconds()))
	if len(o.all) != 0 {
		t.Errorf("%d resources are remembered for ever", len(o.all))
	}
	latch := holdfast.Snapshot{Resource: "l", Kind: "latch", Holders: []holdfast.Holder{held("x", time.Hour)}}
	o.see(latch, instant(0))
	latch.Holders[0].TTL = time.Minute
	if r := newRow(latch, o.see(latch, instant(1)), instant(1)); r.Condition != isHeld {
		t.Errorf("a latch is %s", r.Condition)
	}
}

func TestJobs(t *testing.T) {
	mark := func(name string, left time.Duration) holdfast.Snapshot {
		return holdfast.Snapshot{Resource: name, Kind: "job", Capacity: 1, Marked: left, MarkedBy: held("x.1", 0)}
	}
	running := holdfast.Snapshot{Resource: "push@2026-11-23T10:02:00Z", Kind: "job", Capacity: 1, Holders: []holdfast.Holder{held("y.1", time.Second)}}
	jobs := jobsOf([]holdfast.Snapshot{
		mark("push@2026-11-23T10:00:00Z", time.Minute), mark("push@2026-11-23T10:01:00Z", time.Minute), mark("a@b@2026-11-23T10:00:00.5Z", time.Minute),
		mark("once@home", time.Hour), {Resource: "latch@2026-11-23T10:00:00Z", Kind: "latch", Marked: time.Hour},
	}, []*row{newRow(running, sight{}, instant(0))})
	if len(jobs) != 2 || jobs[0].Name != "a@b" || jobs[1].Name != "push" {
		t.Fatalf("%+v", jobs)
	}
	if j := jobs[0]; j.State() != "done" || !j.Next.IsZero() || j.Slot.Nanosecond() != 5e8 {
		t.Errorf("%+v", j)
	}
	if j := jobs[1]; j.State() != "running" || j.Known != 3 || len(j.Runs) != 3 || j.Runs[2].Slot.Format(time.TimeOnly) != "10:00:00" || j.By.ID != "y.1" || j.Next.Format(time.TimeOnly) != "10:03:00" {
		t.Errorf("%+v", j)
	}
}

// Of a job that has run often the newest runs are kept, the newest first.
func TestRunsOfAJobAreBounded(t *testing.T) {
	var marks []holdfast.Snapshot
	for i := range 9 {
		marks = append(marks, holdfast.Snapshot{Resource: "push@" + instant(float64(60*i)).UTC().Format(time.RFC3339Nano), Kind: "job", Marked: time.Minute})
	}
	j := jobsOf(marks, nil)[0]
	if len(j.Runs) != maxRuns || j.Known != 9 || !j.Runs[0].Slot.Equal(instant(480)) || !j.Runs[4].Slot.Equal(instant(240)) {
		t.Errorf("%+v", j)
	}
}

func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 62 * time.Second: "1m 02s", 3*time.Hour + 4*time.Minute: "3h 04m", 49 * time.Hour: "2d 01h",
	} {
		if got := formatAge(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := formatCount(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
