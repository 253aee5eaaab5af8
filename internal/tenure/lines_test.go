package tenure

import (
	"sync"
	"testing"
	"time"
)

func TestSliceEndsAfterSoManyHandOffs(t *testing.T) {
	now := time.Hour
	s := NewSlice(now, 3, MaxHandOffs)
	for i := range MaxHandOffs {
		if !s.Take(now + Quantum - 1) {
			t.Fatalf("hand-off %d refused", i+1)
		}
	}
	if s.Take(now) {
		t.Errorf("hand-off %d allowed", MaxHandOffs+1)
	}
}

// Turns that take long are one each.
func TestSliceEndsAfterARound(t *testing.T) {
	now := time.Hour
	s := NewSlice(now, 3, MaxHandOffs)
	for i := range 3 {
		if now += Quantum; !s.Take(now) {
			t.Errorf("turn %d of the first round refused", i+1)
		}
	}
	if s.Take(now) {
		t.Error("a second round was allowed")
	}
}

func TestSliceEndsAfterItsSpan(t *testing.T) {
	now := time.Hour
	s := NewSlice(now, 100, 1000)
	if !s.Take(now + MaxSpan - 1) {
		t.Error("refused within the span")
	}
	if s.Take(now + MaxSpan) {
		t.Error("allowed after the span")
	}
	if none := (Slice{}); none.Take(now) {
		t.Error("the zero slice allows a hand-off")
	}
}

func TestLineServesInOrder(t *testing.T) {
	var ls Lines[string, int]
	l, w, _ := ls.Join("x")
	if w != nil {
		t.Fatal("the first has to wait")
	}
	var waiters []*Caller[int]
	for range 5 {
		same, w, _ := ls.Join("x")
		if same != l || w == nil {
			t.Fatal("not in the same line")
		}
		waiters = append(waiters, w)
	}
	if other, w, _ := ls.Join("y"); other == l || w != nil {
		t.Error("another key waits in the same line")
	}
	for i, w := range waiters {
		if !ls.HandOff(l, i) {
			t.Fatal("nobody there")
		}
		for k, later := range waiters[i+1:] {
			select {
			case <-later.Turn:
				t.Fatalf("waiter %d passed the front", i+1+k)
			default:
			}
		}
		if got := <-w.Turn; got != i {
			t.Errorf("waiter %d got turn %d", i, got)
		}
	}
	if ls.TryHandOff(l, 0) {
		t.Error("passed to nobody")
	}
	if l, _ := ls.TryJoin("x"); l != nil {
		t.Error("the turn is taken, TryJoin got it")
	}
	if ls.HandOff(l, 0) {
		t.Error("passed to nobody")
	}
	if fresh, _ := ls.TryJoin("x"); fresh == nil || fresh == l {
		t.Error("the line did not end")
	}
	if n := len(ls.lines); n != 2 {
		t.Errorf("%d lines in memory", n)
	}
}

func TestCancel(t *testing.T) {
	var ls Lines[string, int]
	l, _, _ := ls.Join("x")
	_, first, _ := ls.Join("x")
	_, second, _ := ls.Join("x")
	_, third, _ := ls.Join("x")
	if _, got := ls.Cancel(l, second); got {
		t.Error("a turn that was not sent")
	}
	if !ls.HandOff(l, 7) {
		t.Fatal("nobody there")
	}
	turn, got := ls.Cancel(l, first) // it is on its way
	if !got || turn != 7 {
		t.Errorf("turn %d, %v", turn, got)
	}
	if l.Waiting() != 1 || !ls.HandOff(l, turn) {
		t.Fatal("the third does not wait")
	}
	if <-third.Turn != 7 {
		t.Error("the turn did not come to the third")
	}
	if l.Waiting() != 0 {
		t.Error("somebody waits")
	}
}

// Whatever the order of joins, passes and cancels: one at a time has the turn,
// and no turn is lost.
func TestTurnIsNeitherLostNorDoubled(t *testing.T) {
	var ls Lines[string, int]
	var inside, turns int // guarded by having the turn
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 300 {
				l, w, _ := ls.Join("x")
				if w != nil {
					impatient := make(chan struct{})
					if (g+i)%3 == 0 {
						close(impatient)
					}
					select {
					case <-w.Turn:
					case <-impatient:
						if turn, got := ls.Cancel(l, w); got {
							ls.HandOff(l, turn)
						}
						continue
					}
				}
				if inside++; inside != 1 {
					t.Errorf("%d have the turn", inside)
				}
				turns++
				inside--
				ls.HandOff(l, 0)
			}
		})
	}
	wg.Wait()
	if len(ls.lines) != 0 {
		t.Error("a line is left")
	}
	if turns < 16*200 {
		t.Errorf("%d turns", turns)
	}
}

func TestParkedTurnIsTaken(t *testing.T) {
	var lines Lines[string, int]
	turn := 7
	l, w, parked := lines.Join("a")
	if w != nil || parked != nil {
		t.Fatal("the first caller waits")
	}
	if !lines.Park(l, &turn) {
		t.Fatal("the turn of a line without a caller is not parked")
	}
	if other := 8; lines.Unpark(l, &other) {
		t.Error("another turn was unparked")
	}
	if got, parked := lines.TryJoin("a"); got != l || parked != &turn {
		t.Errorf("TryJoin: line %p, turn %p; want %p, %p", got, parked, l, &turn)
	}
	if lines.Unpark(l, &turn) {
		t.Error("a turn that was taken was unparked")
	}
	if n := lines.Parked(); n != 0 {
		t.Errorf("%d turns are parked after it was taken", n)
	}
	if got, _ := lines.TryJoin("a"); got != nil {
		t.Error("TryJoin took a turn that was taken")
	}
	if _, w, _ = lines.Join("a"); w == nil {
		t.Fatal("the second caller does not wait")
	}
	if lines.Park(l, &turn) {
		t.Error("a turn was parked although a caller waits")
	}
	if !lines.HandOff(l, 9) || <-w.Turn != 9 {
		t.Error("the caller did not get the turn")
	}
	if !lines.Park(l, &turn) || lines.Parked() != 1 || !lines.Unpark(l, &turn) || lines.Parked() != 0 {
		t.Error("the turn is not parked and unparked")
	}
	if lines.HandOff(l, 0) {
		t.Error("the line did not end")
	}
}

func TestLongerSlices(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		what         string
		had, used    int
		call, lasted time.Duration
		want         int
	}{
		{"twice as many", 64, 64, 100 * us, 200 * us, 128},
		{"no more than for a process that is alone", 256, 256, 100 * us, 500 * us, MaxAlone},
		{"more if calls are slow", 256, 256, 6000 * us, 500 * us, 512},
		{"as many as four calls last for", 2048, 2048, 1000 * us, 4096 * us, 2000},
		{"less again when calls are quicker", 2048, 2048, 200 * us, 4096 * us, 400},
		{"as many as were used", 2048, 1500, 6000 * us, MaxSpan, 1500},
		{"no more than MaxSlow", MaxSlow, MaxSlow, time.Second, 8000 * us, MaxSlow},
		{"no more than microseconds have passed", 200, 200, 50 * us, 100 * us, 150},
		{"at least those of any slice", 64, 64, 0, 0, MaxHandOffs},
		{"a lease that was renewed", 256, 256, -time.Second, 10 * time.Millisecond, MaxAlone},
	} {
		start := time.Hour
		s := NewSlice(start, 1, c.had)
		if got := s.Longer(c.had, c.used, start+c.lasted, start-c.call); got != c.want {
			t.Errorf("%s: %d hand-offs, want %d", c.what, got, c.want)
		}
	}
}

// On a slow store a slice of many hand-offs lasts until they are used up, or for MaxSpan.
func TestSliceOnASlowStore(t *testing.T) {
	s := NewSlice(0, 3, MaxAlone+1)
	for i := range MaxAlone + 1 {
		if !s.Take(MaxSpan - 1) {
			t.Fatalf("hand-off %d refused", i+1)
		}
	}
	if s.Take(MaxSpan - 1) {
		t.Error("one more allowed")
	}
	if s = NewSlice(0, 3, MaxAlone+1); s.Take(MaxSpan) {
		t.Error("allowed after MaxSpan")
	}
}
