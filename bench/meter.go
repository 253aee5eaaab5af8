package main

import (
	"context"
	"time"
)

// meter reads the counters of a server.
type meter interface {
	read(ctx context.Context) (serverUse, error)
	// empty deletes what contenders have left on the server.
	empty(ctx context.Context) error
	close()
}

// serverUse is the counters of a server since its start.
type serverUse struct {
	cpu    time.Duration
	reads  int // reads from a socket: a pipeline is one
	calls  map[string]int
	writes int // transactions that changed something
}

// sent returns the number of calls of the given commands.
func (u serverUse) sent(commands []string) int {
	n := 0
	for _, c := range commands {
		n += u.calls[c]
	}
	return n
}
