package primitivetest

import (
	"context"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
)

// weathers is a program of faults around producers and consumers.
type weathers []step

func drawSupply(t *rapid.T, least int) Script {
	return weathers(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := drawStep(t)
		switch s.Do {
		case "lock", "try", "break holder", "break waiter":
			s.Do = "heal"
		}
		return s
	}), least, 20).Draw(t, "program"))
}

// supply is producers and consumers of items behind bad networks.
type supply struct {
	lounge
	stock, taken int
}

// until takes the mutex when there is stock, or at once, whatever goes wrong.
func (s *supply) until(client int, ready func() bool) *holdfast.Lease {
	ctx := context.Background()
	m := s.clients[client].Mutex("x", s.ttl(holdfast.DefaultTTL))
	for {
		l, err := m.Lock(ctx)
		for err == nil && !s.see(ready) {
			l, err = m.Cond("ready").Wait(ctx, l)
		}
		if err == nil && l.Err() == nil {
			return l
		}
		if s.unfounded(err, client, s.lasting(holdfast.DefaultTTL)) {
			s.fail("client %d: %v", client, err)
		}
	}
}

func (s *supply) see(what func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return what()
}

// change is what a holder does: what the mutex protects is stopped from being torn
// besides, since a process that stops may come late.
func (s *supply) change(by func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by()
}

// signal insists: a signal whose outcome is unknown is repeated.
func (s *supply) signal(client int) {
	for s.cond(client).Signal(context.Background()) != nil {
		s.pass(100 * time.Millisecond)
	}
}

// Play lets items be taken by consumers on the clients 0 and 1 while faults come;
// client 2 puts them. Nobody may hang for longer than holdfast.CondPatience.
func (p weathers) Play(st *Stage) []string {
	s := &supply{}
	s.enter(st, 3)
	const each, all = 3, 12
	for consumer := range all / each {
		s.actors.Go(func() {
			for range each {
				l := s.until(consumer%2, func() bool { return s.stock > 0 })
				s.change(func() { s.stock--; s.taken++ })
				_ = l.Release(context.Background())
			}
		})
	}
	s.actors.Go(func() {
		for range all {
			l := s.until(2, func() bool { return true })
			s.change(func() { s.stock++ })
			_ = l.Release(context.Background())
			s.signal(2)
			s.pass(200 * time.Millisecond)
		}
	})
	for _, fault := range p {
		s.Rest()
		s.weather(fault)
		s.pass(fault.Sleep)
	}
	s.heal()
	s.drained(all)
	s.actors.Wait()
	return s.close("x", condName)
}

// drained waits until all is taken. If it is not in time, it helps out, so that
// the script ends.
func (s *supply) drained(all int) {
	done := func() bool { return s.see(func() bool { return s.taken == all }) }
	if s.virtual() {
		s.pass(holdfast.CondPatience + 15*time.Second)
	}
	for range 3 { // on a stage of real time, one look is shorter than the patience
		if s.Settle(done) {
			return
		}
	}
	s.fail("%d of %d taken: somebody hangs", s.taken, all)
	for !done() {
		s.change(func() { s.stock += all })
		_ = s.cond(0).Broadcast(context.Background())
		<-time.After(10 * time.Second)
	}
}
