package zookeeper

import (
	"context"
	"sync"
)

const (
	// large is the size in bytes of a document above which a read looks first whether it has changed: for a smaller
	// one, a second round trip when it has costs more than its bytes.
	large = 8 << 10
	// largeAtOnce bounds how many documents are known to be large.
	largeAtOnce = 1024
)

// largeDocuments are those that were large when they were read last.
type largeDocuments struct {
	mu    sync.Mutex
	paths map[string]bool
}

// note remembers the size of a document that was read.
func (l *largeDocuments) note(path string, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if size <= large {
		delete(l.paths, path)
		return
	}
	if l.paths == nil || len(l.paths) >= largeAtOnce {
		l.paths = make(map[string]bool)
	}
	l.paths[path] = true
}

func (l *largeDocuments) has(path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paths[path]
}

// isRevision reports whether a document has a revision: then that has a znode.
func (s *store) isRevision(ctx context.Context, path string, rev uint64) (bool, error) {
	return call(ctx, s, path, func() (bool, error) {
		there, _, err := s.conn.Exists(revisionPath(path, rev))
		return there, err
	})
}
