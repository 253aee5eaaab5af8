package cas

import (
	"crypto/rand"
	mathrand "math/rand/v2"
	"time"
)

// A process that changes a document without a gap wins every race against one that has to read it first: as soon as its swap has
// ended it sends the next. A newcomer that has lost some races knocks: it changes a small document beside, which
// a process looks at now and then while it leaves no gap. If somebody has knocked it yields. It also leaves a gap
// of its own accord when it has released the resource and nobody is in the line, as long as it sees that others change it too.

const (
	// knockInterval is for how long a process changes a document without a gap before it looks for a knock, and the
	// time between two knocks.
	knockInterval = 100 * time.Millisecond
	// yieldTrips is for how many round trips a process yields. A newcomer needs some reads and a swap.
	yieldTrips = 6
	// courtesies is how often in a row a process that has left nobody in the line lets others join first, in vain, after it
	// has seen a change of another, and courtesyTrips for how many round trips on average.
	courtesies    = 4
	courtesyTrips = 2
	// knockKeep is how long the store keeps a knock.
	knockKeep = time.Minute
)

// knock is what a process knows of the knocks of a resource.
type knock struct {
	rev  uint64
	made time.Time // the latest of this process
}

func (k Key) knocks() Key { return Key{Space: Knocks, Prefix: k.Prefix, Name: k.Name} }

// yield lets newcomers go first if they have knocked, and reports whether it did. It returns after a read.
func (e *Engine) yield(w *writer, ops []*operation) (bool, error) {
	now := time.Now()
	gap := now.Sub(w.swapped) > w.pace()
	if gap {
		w.busy = now
	}
	if w.courtesy > 0 && !gap && w.deserted() && !w.urgent(ops) {
		w.courtesy--
		w.rest(w.pace() + mathrand.N(courtesyTrips*w.pace()))
		return true, e.read(w)
	}
	if w.urgent(ops) || now.Sub(w.busy) < knockInterval {
		return false, nil
	}
	w.busy = now
	d, _, err := e.reads.do(Read{Key: w.key.knocks(), Rev: w.knock.rev}, false)
	if err != nil || d.Rev == w.knock.rev {
		return false, nil // a knock is a hint
	}
	w.knock.rev = d.Rev
	w.rest(yieldTrips * w.pace())
	return true, e.read(w)
}

// deserted reports whether nobody has the resource or waits for it.
func (w *writer) deserted() bool {
	return w.parsed != nil && len(w.parsed.state.Holders)+len(w.parsed.state.Waiters) == 0
}

// settle knocks, and waits for a gap between two changes, until there is somebody to whom the operations can be
// proposed, or until others have come.
func (e *Engine) settle(w *writer, ops []*operation) error {
	began := time.Now()
	if began.Sub(w.knock.made) > knockInterval {
		w.knock.made = began
		for range 2 { // the second time with the revision that is there
			out, _, err := e.swaps.do(Change{Key: w.key.knocks(), Rev: w.knock.rev, Value: []byte(rand.Text()), Keep: knockKeep, Relaxed: true}, false)
			if w.knock.rev = out.Doc.Rev; err != nil || out.Swapped {
				break // an error shows at the next read
			}
		}
	}
	for same := 0; ; {
		rev := w.doc.Rev
		w.pause(1)
		if err := e.read(w); err != nil {
			return err
		}
		if w.bar(ops, false).ID != "" || e.writers.waits(w) || time.Since(began) > 2*knockInterval {
			return nil
		}
		changed := w.doc.Rev != rev
		if changed && same > 0 || same > 1 {
			return nil // a gap that has just begun, or one that is long
		}
		if same++; changed {
			same = 0
		}
	}
}
