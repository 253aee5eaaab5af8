package endure

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// arena is the servers of a run.
type arena interface {
	// urls are what openEngine takes.
	urls() []string
	// upset takes the store away for some seconds: it fails over, or is killed and starts again with its data. It
	// returns when all is well again.
	upset(minute int)
	// census counts what is in the store.
	census(ctx context.Context) (Census, error)
}

// newArena starts the servers of a store, which end with the test.
func newArena(t testing.TB, store string) arena {
	t.Helper()
	if store != onQuorum {
		return &sentinelArena{redistest.StartSentinel(t)}
	}
	a := &quorumArena{}
	for range 3 {
		a.servers = append(a.servers, redistest.Start(t, redistest.WithAppendOnly(), redistest.WithArgs("--appendfsync", "no")))
	}
	return a
}

// sentinelArena is a master with two replicas and three Sentinels.
type sentinelArena struct{ group *redistest.Sentinel }

func (a *sentinelArena) urls() []string { return a.group.Addrs() }

// upset kills the master in one minute, and has it replaced by order in the next. The killed one comes back, empty, as
// a replica.
func (a *sentinelArena) upset(minute int) {
	if minute%2 == 1 {
		killed := a.group.Master()
		killed.Kill()
		a.group.AwaitFailOver()
		a.group.Rejoin(killed)
	} else {
		a.group.FailOver()
	}
	a.group.AwaitWatched()
}

func (a *sentinelArena) census(ctx context.Context) (Census, error) {
	all := append(a.group.Replicas(), a.group.Master())
	return redisCensus(ctx, []string{a.group.Master().Addr()}, addresses(append(all, a.group.Watchers()...)))
}

// quorumArena is three servers that know nothing of each other.
type quorumArena struct{ servers []*redistest.Server }

func (a *quorumArena) urls() (all []string) {
	for _, s := range a.servers {
		all = append(all, s.URL())
	}
	return all
}

// upset kills one server after the other, and starts it with its data.
func (a *quorumArena) upset(minute int) {
	s := a.servers[minute%len(a.servers)]
	s.Kill()
	s.Restart()
}

func (a *quorumArena) census(ctx context.Context) (Census, error) {
	all := addresses(a.servers)
	return redisCensus(ctx, all, all)
}

func addresses(servers []*redistest.Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}
