package x

import "testing"

func TestA(t *testing.T) {
	if testing.Short() {
		t.Skip("short") // want
	}
	t.SkipNow() // want
	list.SkipAhead()
}
