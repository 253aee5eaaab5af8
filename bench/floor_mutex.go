package main

import (
	"context"
	"sync"
)

// mutexClient has one mutex for each name, shared by all callers of a process.
type mutexClient struct{ byName sync.Map }

func (p *mutexClient) lock(resource string) lock {
	m, _ := p.byName.LoadOrStore(resource, &sync.Mutex{})
	return mutexLock{m.(*sync.Mutex)}
}

func (p *mutexClient) close() {}

type mutexLock struct{ mu *sync.Mutex }

func (l mutexLock) Lock(context.Context) error   { l.mu.Lock(); return nil }
func (l mutexLock) Unlock(context.Context) error { l.mu.Unlock(); return nil }

// mutexFloor is Go's own mutex, inside one process.
func mutexFloor() contender {
	return contender{name: "sync.Mutex", role: floor, open: func(settings) (client, error) {
		return &mutexClient{}, nil
	}}
}
