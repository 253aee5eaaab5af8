package main

import (
	"context"
	"sync"
)

// mutexClient has one lock of Go for each name, shared by all callers of a process.
type mutexClient struct {
	byName sync.Map
	open   func() sync.Locker
}

func (p *mutexClient) lock(resource string) lock {
	m, _ := p.byName.LoadOrStore(resource, p.open())
	return mutexLock{m.(sync.Locker)}
}

func (p *mutexClient) close() {}

type mutexLock struct{ mu sync.Locker }

func (l mutexLock) Lock(context.Context) error   { l.mu.Lock(); return nil }
func (l mutexLock) Unlock(context.Context) error { l.mu.Unlock(); return nil }

// mutexFloor is Go's own mutex, inside one process.
func mutexFloor() contender {
	return contender{name: "sync.Mutex", role: floor, open: func(settings) (client, error) {
		return &mutexClient{open: func() sync.Locker { return &sync.Mutex{} }}, nil
	}}
}

// readersFloor is the read lock of Go's own RWMutex, inside one process.
func readersFloor() contender {
	return contender{name: "sync.RWMutex, RLock", role: floor, open: func(settings) (client, error) {
		return &mutexClient{open: func() sync.Locker { return new(sync.RWMutex).RLocker() }}, nil
	}}
}
