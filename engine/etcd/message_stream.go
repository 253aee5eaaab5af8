package etcd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
)

const (
	// letterKeep is how long a letter is kept that is not attached as its change is.
	letterKeep = time.Minute
	// silence is after how long without a response a watch is checked, and then opened
	// anew.
	silence = 3 * time.Second
	// longestPause bounds the pause before a watch is opened anew.
	longestPause = 2 * time.Second
)

// A messageStream is an open stream of messages to an address: a watch of its keys.
type messageStream struct {
	client  *clientv3.Client
	keys    string // what they begin with
	deliver func([]byte)
	resync  func()

	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// Listen implements cas.DocumentStore.
func (s *keyspace) Listen(ctx context.Context, to cas.Address, deliver func([]byte), resync func()) (io.Closer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	m := &messageStream{client: s.client, keys: s.inboxOf(to), deliver: deliver, resync: resync, done: make(chan struct{})}
	w, err := m.open(ctx)
	if err != nil {
		return nil, failure(err)
	}
	ctx, m.cancel = context.WithCancel(context.Background())
	go m.run(ctx, w)
	return m, nil
}

// Close implements io.Closer.
func (m *messageStream) Close() error {
	m.cancel()
	<-m.done
	return nil
}

// A watch is one watch of the keys, until it fails. It has a watcher of its own: that of a client would put a
// new watch on the connection of an old one that is dead.
type watch struct {
	clientv3.Watcher
	ctx       context.Context
	cancel    context.CancelFunc
	responses clientv3.WatchChan
}

// close ends a watch and waits until it has ended.
func (w *watch) close() {
	w.cancel()
	_ = w.Watcher.Close() // the error is that it was cancelled
}

// open opens a watch, and returns when it is live or ctx ends.
func (m *messageStream) open(ctx context.Context) (*watch, error) {
	w := &watch{Watcher: clientv3.NewWatcher(m.client)}
	w.ctx, w.cancel = context.WithCancel(clientv3.WithRequireLeader(context.Background()))
	stop := context.AfterFunc(ctx, w.cancel)
	w.responses = w.Watch(w.ctx, m.keys, clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify())
	created, ok := <-w.responses
	err := created.Err()
	switch {
	case !stop():
		err = context.Cause(ctx)
	case err == nil && (!ok || !created.Created):
		err = errors.New("etcd: the client is closed")
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// run delivers messages until the stream is closed, and opens a new watch after each that has failed.
func (m *messageStream) run(ctx context.Context, w *watch) {
	defer close(m.done)
	pause := time.Duration(0)
	for {
		opened := time.Now()
		m.receive(ctx, w)
		if w.close(); time.Since(opened) > longestPause {
			pause = 0
		}
		for w = nil; w == nil; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause+50*time.Millisecond, longestPause)
			opening, cancel := context.WithTimeout(ctx, silence)
			w, _ = m.open(opening) // an error is an outage, which ends
			cancel()
		}
		m.resync()
	}
}

// receive delivers the messages of one watch. A watch that is silent is checked, since the
// connection may be dead.
func (m *messageStream) receive(ctx context.Context, w *watch) {
	check := time.NewTicker(silence)
	defer check.Stop()
	quiet := 0 // checks since the latest response
	for {
		select {
		case <-ctx.Done():
			return
		case r, ok := <-w.responses:
			if !ok || r.Err() != nil {
				return
			}
			quiet = 0
			for _, e := range r.Events {
				for body := range bytes.SplitSeq(e.Kv.Value, []byte("\n")) {
					m.deliver(body)
				}
			}
		case <-check.C:
			if quiet++; quiet > 1 || !w.ask(ctx) {
				return
			}
		}
	}
}

// ask requests a response, which arrives as those with messages do.
func (w *watch) ask(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(w.ctx, silence)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	return w.RequestProgress(asking) == nil
}
