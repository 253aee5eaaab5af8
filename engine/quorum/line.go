package quorum

import (
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Those who wait in one process stand in a line of their own: only the first of them
// asks the nodes, and has a turn there. The others are told when they are first.

// lines are those who wait in this process, by resource.
type lines struct {
	mu      sync.Mutex
	all     map[engine.Resource][]*place
	streams []*stream
}

// place is one who waits.
type place struct {
	id    string
	asked time.Time
}

// ahead counts those who wait before a holder ID, and drops who has not asked for
// long. An ID that does not wait is behind all.
func (l *lines) ahead(res engine.Resource, id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return 0
	}
	now := time.Now()
	line := slices.DeleteFunc(l.all[res], func(p *place) bool {
		return p.id != id && now.Sub(p.asked) > engine.WaiterLife
	})
	l.put(res, line)
	at := slices.IndexFunc(line, func(p *place) bool { return p.id == id })
	if at < 0 {
		return len(line)
	}
	line[at].asked = now
	return at
}

// put stores a line. The mutex is held.
func (l *lines) put(res engine.Resource, line []*place) {
	if len(line) == 0 {
		delete(l.all, res)
		return
	}
	if l.all == nil {
		l.all = make(map[engine.Resource][]*place)
	}
	l.all[res] = line
}

// join puts a holder ID at the end of a line, unless it is in it. It returns how many
// are ahead.
func (l *lines) join(res engine.Resource, id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.all[res]
	at := slices.IndexFunc(line, func(p *place) bool { return p.id == id })
	if at >= 0 {
		return at
	}
	l.put(res, append(line, &place{id: id, asked: time.Now()}))
	return len(line)
}

// leave takes a holder ID out of a line and tells the next one, if it was first.
func (l *lines) leave(res engine.Resource, id string) {
	l.mu.Lock()
	line := l.all[res]
	at := slices.IndexFunc(line, func(p *place) bool { return p.id == id })
	if at >= 0 {
		l.put(res, slices.Delete(line, at, at+1))
	}
	l.mu.Unlock()
	if at == 0 {
		l.wake(res)
	}
}

// wake tells the first of a line to ask.
func (l *lines) wake(res engine.Resource) {
	l.mu.Lock()
	var ids []string
	if line := l.all[res]; len(line) > 0 {
		ids = []string{line[0].id}
	}
	l.tell(res.Prefix, ids)
}

// disband tells everybody in a line to ask: the resource is marked.
func (l *lines) disband(res engine.Resource) {
	l.mu.Lock()
	var ids []string
	for _, p := range l.all[res] {
		ids = append(ids, p.id)
	}
	delete(l.all, res)
	l.tell(res.Prefix, ids)
}

// tell sends wake-ups. The mutex is held, and free afterwards.
func (l *lines) tell(prefix string, ids []string) {
	type letter struct {
		to *stream
		id string
	}
	var mail []letter
	for _, id := range ids {
		for _, s := range l.streams {
			if s.prefix == prefix && s.client == engine.ClientOf(id) {
				mail = append(mail, letter{s, id})
			}
		}
	}
	l.mu.Unlock()
	for _, m := range mail {
		m.to.send(engine.Wakeup{Kind: engine.Resync, ID: m.id})
	}
}

func (l *lines) open(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, s)
}

func (l *lines) close(s *stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = slices.DeleteFunc(l.streams, func(other *stream) bool { return other == s })
}
