package redistest

import (
	"net"
	"slices"
	"strconv"
	"testing"
)

func TestFreePorts(t *testing.T) {
	t.Parallel()
	const ephemeral = 32_768 // the lowest port of an outgoing connection on Linux; other systems have higher ones
	ports, err := FreePorts(10)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Errorf("a port that is not free: %v", err)
			continue
		}
		defer l.Close()
		if port >= ephemeral {
			t.Errorf("port %d may be taken by an outgoing connection while its server is dead", port)
		}
	}
	slices.Sort(ports)
	if n := len(slices.Compact(ports)); n != 10 {
		t.Errorf("%d different ports of 10", n)
	}
}
