// Package memory provides an engine inside one process, for the unit tests of
// code that uses Holdfast:
//
//	client, err := holdfast.New(memory.New())
//
// It behaves like a single Redis because both follow package internal/queue:
// the same order, tokens, errors and timing. Clients of one Engine share its
// locks, so two clients can stand in for two processes. Two Engines share
// nothing.
//
// The engine has no goroutine and reads time.Now, so it works in a
// testing/synctest bubble, where a lease of an hour expires at once.
//
// It is not a lock for production: use sync.Mutex inside one process, and an
// engine with a store between processes.
package memory
