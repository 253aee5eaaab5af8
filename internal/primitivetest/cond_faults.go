package primitivetest

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/random"
)

// condFaults is a script of faults for producers and consumers.
type condFaults []step

func drawCondFaults(t *random.T, least int) Script {
	return condFaults(random.SliceOfN(random.Custom(func(t *random.T) step {
		s := drawStep(t)
		switch s.Do {
		case "lock", "try", "break holder", "break waiter":
			s.Do = "heal"
		}
		return s
	}), least, 20).Draw(t, "program"))
}

// condFaultRun runs a producer and consumers of items behind faulty networks.
type condFaultRun struct {
	condRun
	stock, taken int
}

// lockWhen acquires the mutex when ready holds. It retries after every error.
func (s *condFaultRun) lockWhen(client int, ready func() bool) *holdfast.Lease {
	ctx := context.Background()
	m := s.clients[client].Mutex("x", s.ttl(holdfast.DefaultTTL))
	for {
		l, err := m.Lock(ctx)
		for err == nil && !s.locked(ready) {
			l, err = m.Cond("ready").Wait(ctx, l)
		}
		if err == nil && l.Err() == nil {
			return l
		}
		if s.wronglyTooShort(err, client, s.ttlOf(holdfast.DefaultTTL)) {
			s.fail("client %d: %v", client, err)
		}
	}
}

// locked evaluates a condition of the data.
func (s *condFaultRun) locked(holds func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return holds()
}

// update changes the data. A mutex of the process guards the data too, since in real time a
// holder that was stalled may change it after the end of its lease.
func (s *condFaultRun) update(by func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by()
}

// signal repeats a signal whose outcome is unknown.
func (s *condFaultRun) signal(client int) {
	for s.cond(client).Signal(context.Background()) != nil {
		s.elapse(100 * time.Millisecond)
	}
}

// Play runs consumers on clients 0 and 1 and a producer on client 2, under faults. It checks
// that no caller hangs for longer than holdfast.CondTimeout.
func (p condFaults) Play(st *Environment) []string {
	s := &condFaultRun{}
	s.openClients(st, 3)
	const each, all = 3, 12
	for consumer := range all / each {
		s.actors.Go(func() {
			for range each {
				l := s.lockWhen(consumer%2, func() bool { return s.stock > 0 })
				s.update(func() { s.stock--; s.taken++ })
				_ = l.Release(context.Background())
			}
		})
	}
	s.actors.Go(func() {
		for range all {
			l := s.lockWhen(2, func() bool { return true })
			s.update(func() { s.stock++ })
			_ = l.Release(context.Background())
			s.signal(2)
			s.elapse(200 * time.Millisecond)
		}
	})
	for _, fault := range p {
		s.Idle()
		s.setNetwork(fault)
		s.elapse(fault.Sleep)
	}
	s.healAll()
	s.awaitTaken(all)
	s.actors.Wait()
	return s.close("x", condName)
}

// awaitTaken waits until all items are taken. If that takes too long, it records a failure
// and adds items, so that the script ends.
func (s *condFaultRun) awaitTaken(all int) {
	done := func() bool { return s.locked(func() bool { return s.taken == all }) }
	if s.virtual() {
		s.elapse(holdfast.CondTimeout + 15*time.Second)
	}
	for range 3 { // in real time, one Eventually is shorter than CondTimeout
		if s.Eventually(done) {
			return
		}
	}
	s.fail("%d of %d taken: a caller hangs", s.taken, all)
	for !done() {
		s.update(func() { s.stock += all })
		_ = s.cond(0).Broadcast(context.Background())
		<-time.After(10 * time.Second)
	}
}
