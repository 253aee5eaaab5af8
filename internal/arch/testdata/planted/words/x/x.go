package x

import "example.org/other"

// The owner of a goroutine waits for it: prose is free.
type OwnerID string // want

type lease struct {
	refreshEvery int // want
	renewEvery   int
}

func (l lease) sendHeartbeat() { // want
	other.Obtain()
	permits := 1 // want
	_ = permits  // want
}
