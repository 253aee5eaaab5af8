package zookeeper

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine/cas"
)

const (
	// sweepInterval is the number of Swaps for each sweep, on average.
	sweepInterval = 64
	// swept is how many documents a sweep looks at. A change makes at most one document, so when more than
	// half of them are old, more are deleted than made.
	swept        = 2 * sweepInterval
	sweepTimeout = 5 * time.Second
	// sweepMargin is by how much the clocks of the servers may differ: each leader has its own.
	sweepMargin = time.Minute
)

// sweep starts to look at some documents, anywhere among those of a key's space and prefix, and to delete
// those whose time to be kept is over. One sweep is under way at a time.
func (s *store) sweep(k cas.Key) {
	select {
	case s.sweeping <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-s.sweeping }()
		ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
		defer cancel()
		_ = s.sweepShard(ctx, s.folder(k.Space, k.Prefix)) // another one does it
	}()
}

// sweepShard deletes old documents of a random shard. Their age is that by the clock of the leader, which only
// a write shows: no client's clock can delete what is in use.
func (s *store) sweepShard(ctx context.Context, folder string) error {
	all, err := s.children(ctx, folder)
	if err != nil || len(all) == 0 {
		return err
	}
	shard := folder + "/" + all[rand.N(len(all))]
	names, err := s.children(ctx, shard)
	if err != nil {
		return err
	}
	now, err := s.leaderTime(ctx, shard)
	if err != nil {
		return err
	}
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	const atOnce = 16 // leaves room for the calls of others
	for from := 0; from < min(swept, len(names)); from += atOnce {
		some := names[from:min(from+atOnce, swept, len(names))]
		err := each(len(some), func(i int) error { return s.deleteOld(ctx, shard+"/"+some[i], now) })
		if err != nil {
			return err
		}
	}
	return nil
}

// leaderTime returns what the clock of the leader shows, by a write to a folder.
func (s *store) leaderTime(ctx context.Context, folder string) (time.Time, error) {
	stat, err := call(ctx, s, folder, func() (*zk.Stat, error) { return s.conn.Set(folder, []byte{}, -1) })
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(stat.Mtime), nil
}

// deleteOld deletes a document whose time to be kept is over, unless it changes meanwhile.
func (s *store) deleteOld(ctx context.Context, path string, now time.Time) error {
	d, err := s.get(ctx, path)
	if err != nil || d.rev == 0 || now.Sub(d.at) < d.keep+sweepMargin {
		return err
	}
	_, _ = s.multi(ctx, path, []any{ // if it has changed, or a call of another sweep was first, nothing is deleted
		&zk.DeleteRequest{Path: revisionPath(path, d.rev), Version: -1},
		&zk.DeleteRequest{Path: path, Version: -1},
	})
	return nil
}
