package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"sync"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// channelListener is one stream of messages.
type channelListener struct {
	channel string
	hub     *notifications
	live    chan error // gets nil when the stream is live, or why it is not

	mu      sync.Mutex // held while one of the functions runs
	opened  bool
	closed  bool
	deliver func([]byte)
	resync  func()
}

// channelOf returns the channel of an address, a name of at most 63 bytes.
func channelOf(to cas.Address) string {
	sum := sha256.Sum256([]byte(to.Prefix + "\x00" + to.Client))
	return "holdfast1_" + hex.EncodeToString(sum[:16])
}

// Listen implements cas.DocumentStore.
func (s *documents) Listen(ctx context.Context, to cas.Address, deliver func([]byte), resync func()) (io.Closer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &channelListener{channel: channelOf(to), hub: s.notifications, live: make(chan error, 1), deliver: deliver, resync: resync}
	s.notifications.add(r)
	var err error
	select {
	case err = <-r.live:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// Close implements io.Closer.
func (r *channelListener) Close() error {
	r.hub.remove(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return nil
}

// ready makes the stream live. It reports whether it was not.
func (r *channelListener) ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened {
		return false
	}
	r.opened = true
	r.live <- nil
	return true
}

// fail ends a stream that is not live yet.
func (r *channelListener) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.opened {
		r.opened = true
		r.live <- err
	}
}

func (r *channelListener) message(body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.deliver(body)
	}
}

func (r *channelListener) resynchronize() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.resync()
	}
}

// messageArgs returns messages as the parameters of a statement: their channels, their bodies.
func messageArgs(messages []cas.Message) [][]byte {
	channels, bodies := make([]string, len(messages)), make([]string, len(messages))
	for i, m := range messages {
		channels[i], bodies[i] = channelOf(m.To), string(m.Body)
	}
	return [][]byte{textsArg(channels), textsArg(bodies)}
}

// notify sends messages. The commit of a NOTIFY holds a lock of the whole server, so it must not
// wait for the disk.
func (s *documents) notify(args [][]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := s.run(ctx, &transaction{queries: []query{{s.tell, args}}, relaxed: true})
	return err
}
