package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

// folderTries is how often a change is tried if the server removes the folder that was made for it.
const folderTries = 5

// Swap implements cas.DocumentStore. The changes are one transaction each, all at the same time.
func (s *store) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	outs := make([]cas.Outcome, len(changes))
	err := each(len(changes), func(i int) error {
		var err error
		outs[i], err = s.change(ctx, changes[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(changes) > 0 && s.sweepNow() {
		s.sweep(changes[0].Key)
	}
	return outs, nil
}

// change makes one change. The transaction replaces the znode of the revision, so it fails
// if that has gone: a revision is a random number that is never used again, so it
// does not matter if the document was deleted and made anew meanwhile.
func (s *store) change(ctx context.Context, c cas.Change) (cas.Outcome, error) {
	path := s.path(c.Key)
	next := stored{rev: rand.Uint64() | 1, keep: c.Keep, value: c.Value}
	ops := s.replacement(path, c.Rev, next)
	inboxes, rest := s.letters(path, c.Messages)
	session := s.conn.SessionID()
	for try := 1; ; try++ {
		failed, err := s.multi(ctx, path, append(ops, inboxes...))
		switch {
		case err == nil:
			s.post(rest)
			return cas.Outcome{Swapped: true, Doc: cas.Doc{Rev: next.rev}}, nil
		case failed >= len(ops): // an inbox is missing: the change does not depend on it
			inboxes, rest = nil, append(rest, inboxes...)
		case errors.Is(err, zk.ErrNoNode) && c.Rev == 0 && try <= folderTries:
			if err := s.makeFolder(ctx, above(path)); err != nil {
				return cas.Outcome{}, err
			}
		case errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) && c.Rev != 0:
			return s.conflict(ctx, path, c.Rev, session)
		default:
			return cas.Outcome{}, err
		}
	}
}

// replacement is the transaction that replaces a document of a revision.
func (s *store) replacement(path string, rev uint64, next stored) []any {
	create := &zk.CreateRequest{Path: revisionPath(path, next.rev), Data: []byte{}, Acl: s.acl}
	if rev == 0 {
		return []any{&zk.CreateRequest{Path: path, Data: next.encode(), Acl: s.acl}, create}
	}
	return []any{
		&zk.DeleteRequest{Path: revisionPath(path, rev), Version: -1},
		create,
		&zk.SetDataRequest{Path: path, Data: next.encode(), Version: -1},
	}
}

// conflict returns the document that is there instead. No sync is needed: the server that reported the
// conflict has every change before it.
func (s *store) conflict(ctx context.Context, path string, rev uint64, session int64) (cas.Outcome, error) {
	d, err := s.get(ctx, path)
	switch {
	case err != nil:
		return cas.Outcome{}, err
	case session != s.conn.SessionID():
		return cas.Outcome{}, errSession
	case rev != 0 && d.rev == rev:
		return cas.Outcome{}, cas.OneOfMany(fmt.Errorf("%w: zookeeper: %s was damaged, by hand? It has no znode %s; delete it with its children",
			engine.ErrDenied, path, revisionPath(path, rev)))
	}
	return cas.Outcome{Doc: cas.Doc{Rev: d.rev, Value: d.value}}, nil
}
