package tenure

import "testing"

// Each caller gets the turn, and none owns the line, which has ended.
func TestShare(t *testing.T) {
	var ls Lines[string, int]
	l, _, _ := ls.Join("x")
	if n := ls.Share(l, 7); n != 0 {
		t.Errorf("shared with %d, want 0", n)
	}
	l, _, _ = ls.Join("x")
	_, first, _ := ls.Join("x")
	_, gone, _ := ls.Join("x")
	_, last, _ := ls.Join("x")
	if _, got := ls.Cancel(l, gone); got {
		t.Error("a turn that was not sent")
	}
	if n := ls.Share(l, 7); n != 2 || l.Waiting() != 0 {
		t.Errorf("shared with %d, %d wait; want 2, 0", n, l.Waiting())
	}
	if <-first.Turn != 7 {
		t.Error("another turn")
	}
	if turn, got := ls.Cancel(l, last); !got || turn != 7 {
		t.Errorf("turn %d, %v: want the one that is on its way", turn, got)
	}
	if fresh, w, _ := ls.Join("x"); w != nil || fresh == l {
		t.Error("the line did not end")
	}
}
