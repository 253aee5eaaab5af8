package zookeeper

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine/cas"
)

var _ cas.WitnessStore = (*store)(nil)

// A witness is an ephemeral znode of a session that is left to its timeout: its connection is cut, and it is never closed. The
// leader ends it when its own monotonic clock has shown the timeout since it was opened; a new leader
// begins the timeout anew. A session of the caller's connection is none: the caller may close it.

// Witness implements cas.WitnessStore. It lasts for as long as the server lets a session be: 20 ticks, 40 s, by default.
// The name begins with what identifies the root.
func (s *store) Witness(ctx context.Context, prefix string, d time.Duration) (name string, lasts time.Duration, err error) {
	root, err := s.rootID(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.makeFolder(ctx, s.root); err == nil {
			root, err = s.rootID(ctx)
		}
	}
	if err != nil {
		return "", 0, err
	}
	own, err := s.openSession(ctx, d)
	if err != nil {
		return "", 0, err
	}
	defer own.cut()
	name = root + rand.Text()
	path := s.witnessPath(prefix, name)
	err = own.createEphemeral(path, s.acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err := s.makeFolder(ctx, above(path)); err != nil {
			return "", 0, err
		}
		err = own.createEphemeral(path, s.acl)
	}
	return name, own.timeout, refusal(err, path)
}

// Witnesses implements cas.WitnessStore. It is a transaction, since a read may be of a server that is behind. One of another
// root is foreign: documents may have been copied from there, which ephemeral znodes are not.
func (s *store) Witnesses(ctx context.Context, prefix string, names []string) ([]cas.WitnessState, error) {
	root, err := s.rootID(ctx)
	if err != nil {
		return nil, err
	}
	states := make([]cas.WitnessState, len(names))
	err = each(len(names), func(i int) error {
		if !strings.HasPrefix(names[i], root) {
			states[i] = cas.WitnessForeign
			return nil
		}
		path := s.witnessPath(prefix, names[i])
		_, err := s.multi(ctx, path, []any{&zk.CheckVersionRequest{Path: path, Version: -1}})
		if errors.Is(err, zk.ErrNoNode) {
			states[i], err = cas.WitnessVanished, nil
		}
		return err
	})
	return states, err
}

// rootID identifies the root by the transaction that made it, and when: one of the same path in another ensemble, or made
// anew, has another.
func (s *store) rootID(ctx context.Context) (string, error) {
	stat, err := call(ctx, s, s.root, func() (*zk.Stat, error) {
		_, stat, err := s.conn.Get(s.root)
		return stat, err
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x-%x-", stat.Czxid, stat.Ctime), nil
}

func (s *store) witnessPath(prefix, name string) string {
	return path.Join(s.root, "w", escape(prefix), name)
}
