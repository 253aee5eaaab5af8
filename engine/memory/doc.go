// Package memory is an engine inside one process, for the unit tests of code
// that uses Holdfast:
//
//	client, err := holdfast.New(memory.New())
//
// It behaves as one Redis does, because both follow package internal/queue:
// same order, same tokens, same errors, same timing. Clients that share one
// Engine share its locks, so two of them stand in for two processes. Nothing is
// stored outside the Engine, and nothing is shared between two of them.
//
// The engine has no goroutine and takes its time from time.Now, so it runs in a
// testing/synctest bubble, where a lease of an hour expires in no time.
//
// It is not a lock for production: a process needs sync.Mutex for itself, and
// an engine with a store for its peers.
package memory
