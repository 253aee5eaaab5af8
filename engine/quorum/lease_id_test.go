package quorum

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

func TestLeaseIDs(t *testing.T) {
	const holder = "client.attempt"
	const token = 1<<53 - 1
	for _, id := range []string{leaseID(holder, token), leaseID(holder, token) + idSeparator + "7"} {
		if h, k := parseLeaseID(id); h != holder || k != token || engine.ClientOf(id) != "client" {
			t.Errorf("%q is of %q with token %d", id, h, k)
		}
	}
	for _, id := range []string{holder, "a~", "a~!", ""} {
		if h, k := parseLeaseID(id); h != id || k != 0 {
			t.Errorf("%q is taken for a lease of %q", id, h)
		}
	}
}
