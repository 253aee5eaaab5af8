package redistest

import (
	"testing"
	"time"
)

// Each write takes at least as long as the disk is slow, reads do not, and it ends; also with the server.
func TestSlowDisk(t *testing.T) {
	s := Start(t, WithAppendOnly(), WithArgs("--appendfsync", "no"))
	c := s.Client()
	const by = 200 * time.Millisecond
	d, err := s.SlowDisk(by)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := c.Set(t.Context(), "a", "b", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < by {
		t.Errorf("a write took %v, want at least %v", took, by)
	}
	if err := d.End(); err != nil {
		t.Fatal(err)
	}
	if got := c.ConfigGet(t.Context(), "appendfsync").Val()["appendfsync"]; got != "no" {
		t.Errorf("appendfsync %s", got)
	}
	if d, err = s.SlowDisk(by); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	if err := d.End(); err != nil {
		t.Errorf("after the death of the server: %v", err)
	}
}
