package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

var errSession = errors.New("zookeeper: the session changed meanwhile")

// get returns the document of a znode as the server of the connection has it, or the zero
// document if there is none.
func (s *store) get(ctx context.Context, path string) (stored, error) {
	type node struct {
		data []byte
		stat *zk.Stat
	}
	n, err := call(ctx, s, path, func() (node, error) {
		data, stat, err := s.conn.Get(path)
		return node{data, stat}, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, err
	}
	d, ok := decode(n.data)
	if !ok {
		return stored{}, cas.OneOfMany(fmt.Errorf("%w: zookeeper: %s is not a document of this program: choose another root (WithRoot)", engine.ErrDenied, path))
	}
	d.at = time.UnixMilli(n.stat.Mtime)
	return d, nil
}

// Read implements cas.DocumentStore. All reads of a call share a sync.
func (s *store) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	docs := make([]cas.Doc, len(reads))
	paths := make([]string, len(reads))
	for i, r := range reads {
		paths[i] = s.path(r.Key)
	}
	err := s.inSession(ctx, paths, func() error {
		return each(len(reads), func(i int) (err error) {
			docs[i], err = s.readOne(ctx, paths[i], reads[i].Rev)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return docs, nil
}

// readOne reads a document of which the caller has a revision, or 0.
func (s *store) readOne(ctx context.Context, path string, rev uint64) (cas.Doc, error) {
	if rev != 0 && s.large.has(path) {
		same, err := s.isRevision(ctx, path, rev)
		if err != nil || same {
			return cas.Doc{Rev: rev, Unchanged: true}, err
		}
	}
	d, err := s.get(ctx, path)
	if err != nil {
		return cas.Doc{}, err
	}
	s.large.note(path, len(d.value))
	if d.rev == rev && rev != 0 {
		return cas.Doc{Rev: rev, Unchanged: true}, nil
	}
	return cas.Doc{Rev: d.rev, Value: d.value}, nil
}

// inSession runs reads of some paths after a sync in the same session, again if the session was another one: only
// within one session a server is never behind the one that answered before.
func (s *store) inSession(ctx context.Context, paths []string, reads func() error) error {
	for {
		session := s.conn.SessionID()
		if len(paths) != 1 || !s.shown.take(paths[0], session) {
			if err := s.sync(ctx); err != nil {
				return err
			}
		}
		if session != 0 && session == s.conn.SessionID() {
			if err := reads(); err != nil || session == s.conn.SessionID() {
				return err
			}
		}
	}
}

// Keys implements cas.DocumentStore.
func (s *store) Keys(ctx context.Context, space cas.Space, prefix string) iter.Seq2[cas.Key, error] {
	return func(yield func(cas.Key, error) bool) {
		fail := func(err error) { yield(cas.Key{}, err) }
		if err := s.sync(ctx); err != nil {
			fail(err)
			return
		}
		folder := s.folder(space, prefix)
		shards, err := s.children(ctx, folder)
		if err != nil {
			fail(err)
			return
		}
		for _, shard := range shards {
			names, err := s.children(ctx, folder+"/"+shard)
			if err != nil {
				fail(err)
				return
			}
			for _, n := range names {
				if name, ok := unescape(n); ok && !yield(cas.Key{Space: space, Prefix: prefix, Name: name}, nil) {
					return
				}
			}
		}
	}
}
