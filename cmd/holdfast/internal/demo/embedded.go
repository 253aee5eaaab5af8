package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Embedded is a miniredis inside this process, on a free loopback port.
type Embedded struct{ server *miniredis.Miniredis }

// StartEmbedded starts a server. The caller must call Stop.
func StartEmbedded() (*Embedded, error) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true) // keys expire by the clock, as in Redis
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the embedded stand-in for Redis: %w; play on a real one with --store URL", err)
	}
	return &Embedded{server}, nil
}

// URL returns the URL of the server.
func (e *Embedded) URL() string { return "redis://" + e.server.Addr() }

// Outage stops the server for a time: it closes connections and refuses new ones. The
// data are kept.
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

// Stop stops the server; its data are lost.
func (e *Embedded) Stop() { e.server.Close() }
