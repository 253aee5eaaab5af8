package redistest

import (
	"context"
	"net"
	"os/exec"
	"slices"
	"sync"
	"testing"
)

func TestFreePorts(t *testing.T) {
	t.Parallel()
	freePorts(t)
}

// A process that another goroutine starts at that moment has copies of all open files until its exec.
func TestFreePortsWhileProcessesStart(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 30 {
		freePorts(t)
	}
	end()
	starts.Wait()
}

func freePorts(t *testing.T) {
	t.Helper()
	const ephemeral = 32_768 // the lowest port of an outgoing connection on Linux; other systems have higher ones
	ports, err := FreePorts(10)
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range ports {
		l, err := net.Listen("tcp", loopback(port))
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
