package main

import (
	"context"
)

// evalshaQuorum calls the empty script twice on each of n nodes, and waits for a
// majority each time: the minimum for a quorum that decides in scripts. One goroutine
// for each node makes its calls in sequence, which costs least.
func evalshaQuorum(name string, n int) contender {
	return contender{name: name, role: floor, background: true, sends: evalsha, on: topology{nodes: n},
		open: func(s settings) (client, error) {
			p := &quorumFloor{}
			for _, addr := range s.addrs {
				rdb := s.clientOf(addr)
				loaded, err := loadEmpty(rdb, rdb)
				if err != nil {
					p.close()
					return nil, err
				}
				p.nodes = append(p.nodes, newFloorNode(loaded))
			}
			return p, nil
		}}
}

type quorumFloor struct{ nodes []*floorNode }

func (p *quorumFloor) lock(resource string) lock {
	l := &quorumFloorLock{need: len(p.nodes)/2 + 1}
	for _, n := range p.nodes {
		l.nodes = append(l.nodes, n)
		l.locks = append(l.locks, n.client.lock(resource))
	}
	return l
}

func (p *quorumFloor) close() {
	for _, n := range p.nodes {
		close(n.calls)
		n.client.close()
	}
}

// floorNode makes the calls of one node.
type floorNode struct {
	client client
	calls  chan floorCall
}

type floorCall struct {
	ctx  context.Context
	lock lock
	done chan<- error
}

// floorBacklog is the number of calls by which a node may lag. No node hangs where this
// floor is measured.
const floorBacklog = 64

func newFloorNode(p client) *floorNode {
	n := &floorNode{p, make(chan floorCall, floorBacklog)}
	go func() {
		for c := range n.calls {
			c.done <- c.lock.Lock(c.ctx)
		}
	}()
	return n
}

type quorumFloorLock struct {
	nodes []*floorNode
	locks []lock
	need  int
}

func (l *quorumFloorLock) Lock(ctx context.Context) error {
	done := make(chan error, len(l.nodes))
	for i, n := range l.nodes {
		n.calls <- floorCall{ctx, l.locks[i], done}
	}
	for range l.need {
		if err := <-done; err != nil {
			return err
		}
	}
	return nil
}

func (l *quorumFloorLock) Unlock(ctx context.Context) error { return l.Lock(ctx) }
