package live

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// manyResources is how many resources a program with Linger has: a client that gave a lease back for a recall
// does not keep leases of that resource for the rest of the run.
const manyResources = 8

// linger gives a third of the programs of mutexes on a Redis WithLinger. It draws from numbers of its own.
func linger(p *Program) {
	d := drawer{rand.New(rand.NewPCG(p.Seed, 0x6c696e676572))}
	if p.Subject != "holdfast" || len(p.Faults) == 0 || d.IntN(3) > 0 {
		return
	}
	for _, r := range p.Resources {
		if r.Kind != Counter && r.Kind != Stock && r.Kind != Log {
			return
		}
	}
	p.Ways = drawn(d, []Way{Linger}, []Way{Linger}, []Way{Linger, Linger, Linger, Try, Plain})
	for i := len(p.Resources); i < manyResources; i++ {
		p.Resources = append(p.Resources, Resource{Name: fmt.Sprintf("%s%d", p.Resources[0].Kind, i), Kind: p.Resources[0].Kind})
	}
}

// lingered counts the leases that were acquired while nobody used them: the client had kept them after a release.
func lingered(ops []history.Op) (n int) {
	type lease struct {
		users int
		left  time.Duration
	}
	stored := map[string]*lease{} // by holder
	known := map[string]*lease{}  // by ID in the store
	for _, op := range ops {
		switch {
		case op.Kind == history.Acquire && op.Outcome == history.OK && op.Store != "":
			l := known[op.Resource+" "+op.Store]
			if l == nil {
				l = new(lease)
				known[op.Resource+" "+op.Store] = l
			} else if l.users == 0 && op.Call >= l.left {
				n++
			}
			l.users++
			stored[op.Resource+" "+op.Holder] = l
		case op.Kind == history.Release:
			if l := stored[op.Resource+" "+op.Holder]; l != nil {
				l.users, l.left = l.users-1, max(l.left, op.Return)
				delete(stored, op.Resource+" "+op.Holder)
			}
		}
	}
	return n
}
