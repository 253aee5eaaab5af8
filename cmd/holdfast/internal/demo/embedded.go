package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a stand-in for Redis inside this process, on a free port of the
// loopback interface.
type Embedded struct{ server *miniredis.Miniredis }

// StartEmbedded starts it. The caller stops it.
func StartEmbedded() (*Embedded, error) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // leases run out by the clock, as in Redis
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the embedded stand-in for Redis: %w; play on a real one with --redis URL", err)
	}
	return &Embedded{server}, nil
}

// URL is where nodes reach it.
func (e *Embedded) URL() string { return "redis://" + e.server.Addr() }

// Outage closes it for a time: connections are cut and new ones refused. It keeps
// its data.
func (e *Embedded) Outage(ctx context.Context, d time.Duration) error {
	e.server.Close()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	if err := e.server.Restart(); err != nil {
		return fmt.Errorf("start the embedded stand-in for Redis again: %w", err)
	}
	return nil
}

// Stop ends it, with all that it kept.
func (e *Embedded) Stop() { e.server.Close() }
