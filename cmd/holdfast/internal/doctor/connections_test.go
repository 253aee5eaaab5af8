package doctor

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

func TestConnections(t *testing.T) {
	s := start(t, "--timeout", "10", "--tcp-keepalive", "0", "--maxclients", "6")
	var held []interface{ Close() error }
	for range 4 {
		c := s.Client()
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	r := examine(t, defaults(), s.URL())
	require(t, r, "connections", diagnosis.Warn, "timeout 10: the server cuts")
	require(t, r, "connections", diagnosis.Warn, "tcp-keepalive 0")
	require(t, r, "connections", diagnosis.Warn, "5 of at most 6")
	for _, c := range held {
		_ = c.Close()
	}
}
