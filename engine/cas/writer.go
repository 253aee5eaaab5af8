package cas

import (
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
	return start
}

// take returns the operations that wait for a writer. If there are none, its run has ended.
func (ws *writers) take(w *writer) []*operation {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ops, now := w.pending, time.Now()
	if len(ops) > 0 {
		w.away = now.Sub(w.used)
	}
	w.pending, w.used = nil, now
	w.running = len(ops) > 0
	return ops
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

// more returns the operations that wait for a writer that runs on.
func (ws *writers) more(w *writer) []*operation {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ops := w.pending
	w.pending = nil
	return ops
}

// sweep removes the writers of resources that are not used, whenever their number has doubled.
func (ws *writers) sweep() {
	if len(ws.all) < ws.sweepAt {
		return
	}
	for key, w := range ws.all {
		if !w.running && time.Since(w.used) > idle {
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
		w = &writer{key: key, since: now, used: now}
		ws.all[key] = w
	}
	return w
}
