package cas

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// idle is how long a process remembers the document of a resource that it does not use.
const idle = time.Minute

// writer applies the operations of this process on one resource. At most one goroutine at a
// time runs it; see Engine.write.
type writer struct {
	key     Key
	since   time.Time     // when this process began to look at the resource
	pending []*operation  // guarded by writers.mu
	running bool          // guarded by writers.mu
	used    time.Time     // guarded by writers.mu
	away    time.Duration // for how long this process had not used the resource when the present operations came

	proposals []*operation // of other processes; guarded by writers.mu
	urged     bool         // the proposals have waited for long enough; guarded by writers.mu

	contended bool         // see hot
	courtesy  int          // how often this process will let others join first; see yield
	seenAt    time.Time    // when doc was the latest
	trip      atomic.Int64 // of the latest swap, in nanoseconds; see shortestTrip
	swapped   time.Time    // when that ended
	locked    bool         // it failed because somebody else had locked the document
	busy      time.Time    // since when this process changes the document without a gap
	knock     knock
	vain      int                   // proposals without an effect, of the present operations
	joined    map[string]queue.Time // when the waiters of this process joined the line, as last seen; see proposal
	arrived   chan struct{}         // has an element if an operation has come, or proposals are urged

	// granted is the holder ID of the latest grant in a message, until an operation follows.
	granted atomic.Pointer[string]

	// trouble is the latest error of the store, since which no operation has been applied.
	trouble atomic.Pointer[error]

	doc    Doc                       // the document as last seen; the zero Doc is a guess that there is none
	parsed *document                 // doc.Value, never changed; nil if doc is a guess
	swept  int                       // see queue.Record
	seen   atomic.Pointer[sightings] // of doc
	looked atomic.Pointer[sightings] // of what observers read, which may be older than doc
}

// writers are those of the resources that this process uses or used a short time ago.
type writers struct {
	mu      sync.Mutex
	all     map[Key]*writer
	sweepAt int
}

// add adds an operation to those that wait. It reports whether the operation's writer does not
// run: the caller has to start it.
func (ws *writers) add(key Key, op *operation) (start bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.get(key)
	op.writer = w
	w.pending = append(w.pending, op)
	start = !w.running
	w.running = true
	w.awake()
	return start
}

// awake ends a pause of the writer, or the next one. The mutex is held.
func (w *writer) awake() {
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// take returns the operations that wait for a writer. If there are none, its run has ended.
// Proposals wait for operations of this process, or until they are urged.
func (ws *writers) take(w *writer) []*operation {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := time.Now()
	away := now.Sub(w.used)
	w.running, w.used = len(w.pending) > 0 || w.urged, now
	if !w.running {
		return nil
	}
	w.away = away
	return w.all()
}

// all removes the operations that wait, and returns them in their order. The mutex is held.
func (w *writer) all() []*operation {
	ops := append(w.proposals, w.pending...)
	w.proposals, w.pending, w.urged = nil, nil, false
	select {
	case <-w.arrived:
	default:
	}
	return ops
}

// propose adds a proposal to those that a process collects for a resource that it uses. If it is the first of them it
// returns the writer, and its pace.
func (ws *writers) propose(key Key, op *operation) (*writer, time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.all[key]
	again := func(other *operation) bool { return other.id == op.id && other.proposed.Bar == op.proposed.Bar }
	if w == nil || len(w.proposals) == maxProposals || slices.ContainsFunc(w.proposals, again) {
		return nil, 0
	}
	op.writer = w
	w.proposals = append(w.proposals, op)
	if len(w.proposals) > 1 {
		return nil, 0
	}
	return w, w.pace()
}

// putBack puts proposals off. It reports whether no others wait, so that nothing ends their wait.
func (ws *writers) putBack(w *writer, proposals []*operation) (alone bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	alone = len(w.proposals) == 0
	w.proposals = append(proposals, w.proposals...)
	return alone
}

// note notes when a waiter of this process joined the line.
func (w *writer) note(id string) {
	i := slices.IndexFunc(w.parsed.state.Waiters, func(p queue.Waiter) bool { return p.ID == id })
	if i < 0 {
		return
	}
	w.joined[id] = w.parsed.state.Waiters[i].Since
	if len(w.joined) > 2*(len(w.parsed.state.Waiters)+len(w.parsed.state.Holders))+16 {
		maps.DeleteFunc(w.joined, func(id string, _ queue.Time) bool { return !w.parsed.has(id) })
	}
}

// urge makes the proposals of a writer wait no longer. It reports whether the caller has to run the writer.
func (ws *writers) urge(w *writer) (start bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if len(w.proposals) == 0 {
		return false
	}
	w.urged, start = true, !w.running
	w.running = true
	w.awake()
	return start
}

// waits reports whether operations wait for a writer that runs on: also proposals that have waited for long enough, or two
// processes that propose to each other would wait for each other.
func (ws *writers) waits(w *writer) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(w.pending) > 0 || w.urged
}

// granted notes that a message said that an ID has a lease of a resource.
func (ws *writers) granted(key Key, id string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.all[key]; w != nil {
		w.granted.Store(&id)
	}
}

// behind reports whether a message has said that somebody else has changed the document since it was seen: a swap
// would fail, and on some stores cost a commit.
func (w *writer) behind() bool {
	id := w.granted.Swap(nil)
	return id != nil && w.parsed != nil && !slices.ContainsFunc(w.parsed.state.Holders, func(h queue.Holder) bool { return h.ID == *id })
}

// hot reports whether a swap is likely to fail: others wait for the resource, and others have changed it between two operations of this
// process, or while it waited for the effect of its latest proposal.
func (w *writer) hot() bool {
	return w.contended && w.parsed != nil && len(w.parsed.state.Waiters) > 0
}

// more returns the operations that wait for a writer that runs on.
func (ws *writers) more(w *writer) []*operation {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.all()
}

// sweep removes the writers of resources that are not used, whenever their number has doubled.
func (ws *writers) sweep() {
	if len(ws.all) < ws.sweepAt {
		return
	}
	for key, w := range ws.all {
		if !w.running && len(w.proposals) == 0 && time.Since(w.used) > idle {
			delete(ws.all, key)
		}
	}
	ws.sweepAt = 2*len(ws.all) + 64
}

// watch returns the writer of a resource that is only looked at, so that this process
// remembers what it has seen.
func (ws *writers) watch(key Key) *writer {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.get(key)
	w.used = time.Now()
	return w
}

// get returns the writer of a resource. The mutex is held.
func (ws *writers) get(key Key) *writer {
	w := ws.all[key]
	if w == nil {
		ws.sweep()
		now := time.Now()
		w = &writer{key: key, since: now, used: now, joined: make(map[string]queue.Time), arrived: make(chan struct{}, 1)}
		ws.all[key] = w
	}
	return w
}
