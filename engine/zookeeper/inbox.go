package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine/cas"
)

const (
	// slots is the number of znodes of an inbox. A message replaces the one before it in its slot,
	// so this many can arrive at a time without a loss.
	slots = 4
	// postedAtOnce is how many inboxes a change may write to in its own transaction.
	postedAtOnce = 4
	// postsAtOnce is how many Swaps at a time send the rest. Those of others are dropped.
	postsAtOnce = 16
	postTimeout = 2 * time.Second
	// maxLetter is the size in bytes above which messages are replaced by a resync.
	maxLetter = 64 << 10

	callTimeout   = 5 * time.Second
	closeTimeout  = time.Second
	shortestPause = 10 * time.Millisecond
	longestPause  = time.Second
)

// letters returns the writes that send the messages of a change of a document, one for each address: those for
// the transaction of the change, or if there are many, for later. The first line is the document's path.
func (s *store) letters(path string, messages []cas.Message) (now, later []any) {
	bodies := make(map[cas.Address][][]byte)
	for _, m := range messages {
		if len(bodies[m.To]) == 0 {
			bodies[m.To] = [][]byte{[]byte(path)}
		}
		bodies[m.To] = append(bodies[m.To], m.Body)
	}
	all := make([]any, 0, len(bodies))
	for to, b := range bodies {
		data := bytes.Join(b, []byte{'\n'})
		if len(data) > maxLetter {
			data = []byte{}
		}
		all = append(all, &zk.SetDataRequest{Path: s.inboxPath(to, rand.N(slots)), Data: data, Version: -1})
	}
	if len(all) > postedAtOnce {
		return nil, all
	}
	return all, nil
}

// post sends messages in the background. Those that cannot be sent at once are dropped.
func (s *store) post(letters []any) {
	if len(letters) == 0 {
		return
	}
	select {
	case s.posts <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-s.posts }()
		ctx, cancel := context.WithTimeout(context.Background(), postTimeout)
		defer cancel()
		const portion = 64
		for ; len(letters) > 0 && ctx.Err() == nil; letters = letters[min(portion, len(letters)):] {
			some := letters[:min(portion, len(letters))]
			_ = each(len(some), func(i int) error {
				_, _ = s.multi(ctx, s.root, some[i:i+1]) // messages are hints
				return nil
			})
		}
	}()
}

// inboxWatch is a listener. Each slot is an ephemeral znode, which every message replaces; the
// znode's version counts them.
type inboxWatch struct {
	store   *store
	to      cas.Address
	deliver func(body []byte)
	resync  func()

	ctx     context.Context // ends with close
	close   context.CancelFunc
	follows sync.WaitGroup

	mu     sync.Mutex // held while deliver or resync runs
	closed bool
}

// Listen implements cas.DocumentStore.
func (s *store) Listen(ctx context.Context, to cas.Address, deliver func(body []byte), resync func()) (io.Closer, error) {
	in := &inboxWatch{store: s, to: to, deliver: deliver, resync: resync}
	in.ctx, in.close = context.WithCancel(context.Background())
	first := make([]slotState, slots)
	err := each(slots, func(slot int) (err error) {
		first[slot], err = in.open(ctx, slot)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	for slot, l := range first {
		in.follows.Go(func() { in.follow(slot, l) })
	}
	return in, nil
}

// slotState is the content of a slot.
type slotState struct {
	zk.Stat
	data    []byte
	changed <-chan zk.Event
}

// open reads a slot and watches it. It makes the slot if it is missing.
func (in *inboxWatch) open(ctx context.Context, slot int) (slotState, error) {
	s, path := in.store, in.store.inboxPath(in.to, slot)
	for {
		l, err := call(ctx, s, path, func() (slotState, error) {
			data, stat, changed, err := s.conn.GetW(path)
			if err != nil {
				return slotState{}, err
			}
			return slotState{*stat, data, changed}, nil
		})
		if !errors.Is(err, zk.ErrNoNode) {
			return l, err
		}
		_, err = call(ctx, s, path, func() (string, error) {
			return s.conn.Create(path, []byte{}, zk.FlagEphemeral, s.acl)
		})
		if errors.Is(err, zk.ErrNoNode) {
			err = s.makeFolder(ctx, above(path))
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return slotState{}, err
		}
	}
}

// follow delivers what arrives in a slot until the inbox is closed.
func (in *inboxWatch) follow(slot int, last slotState) {
	for pause := shortestPause; ; {
		select {
		case <-last.changed:
		case <-in.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(in.ctx, callTimeout)
		next, err := in.open(ctx, slot)
		cancel()
		if err == nil {
			in.receive(last, next)
			last, pause = next, shortestPause
			continue
		}
		// last.changed stays closed, so the next turn reads again.
		select {
		case <-time.After(pause):
		case <-in.ctx.Done():
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// receive delivers the messages of a slot. Some were lost if the znode is a new one, as after
// the end of a session, or was written more than once since it was read last.
func (in *inboxWatch) receive(last, next slotState) {
	in.mu.Lock()
	defer in.mu.Unlock()
	written := next.Version - last.Version
	switch {
	case in.closed, next.Czxid == last.Czxid && written == 0:
		return
	case next.Czxid == last.Czxid && len(next.data) > 0:
		path, bodies, _ := bytes.Cut(next.data, []byte{'\n'})
		in.store.shown.add(string(path), in.store.conn.SessionID())
		for body := range bytes.SplitSeq(bodies, []byte{'\n'}) {
			in.deliver(body)
		}
	}
	if next.Czxid != last.Czxid || written != 1 || len(next.data) == 0 {
		in.resync()
	}
}

// Close implements io.Closer. It removes the inbox, so that the connection forgets its watches; if
// that fails, the inbox ends with the session.
func (in *inboxWatch) Close() error {
	in.close()
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.follows.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = each(slots, func(slot int) error {
		path := in.store.inboxPath(in.to, slot)
		_, _ = call(ctx, in.store, path, func() (struct{}, error) { return struct{}{}, in.store.conn.Delete(path, -1) })
		return nil
	})
	return nil
}
