package zookeeper

import (
	"sync"
	"time"
)

const (
	// shownFor is for how long a message of a change spares the sync before a read of the document.
	shownFor = 100 * time.Millisecond
	// shownAtOnce bounds how many documents are remembered.
	shownAtOnce = 1024
)

// shownChanges are documents of which a message of a change has just arrived. The server of the connection has that
// change, so the read that follows it, the claim of a grant as a rule, finds it without a sync.
type shownChanges struct {
	mu     sync.Mutex
	latest map[string]shownChange // by path
}

type shownChange struct {
	session int64
	at      time.Time
}

func (c *shownChanges) add(path string, session int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil || len(c.latest) >= shownAtOnce {
		c.latest = make(map[string]shownChange)
	}
	c.latest[path] = shownChange{session, time.Now()}
}

// take reports whether a document was shown in a session a moment ago, and forgets it: one read needs
// no sync.
func (c *shownChanges) take(path string, session int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	shown, ok := c.latest[path]
	delete(c.latest, path)
	return ok && shown.session == session && time.Since(shown.at) < shownFor
}
