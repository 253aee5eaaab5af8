package ledger

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// tickEvery is the pause between two reads that show how far an etcd is.
	tickEvery = 5 * time.Millisecond
	// tickTimeout bounds such a read.
	tickTimeout = time.Second
)

// keyWatch is a Ledger of an etcd. A watch sends every revision of each document, in order, at some time after its commit.
// Ticks, which are linearizable reads, bound the time: a revision that a tick does not show was made after it was sent, one
// that it shows before the reply.
type keyWatch struct {
	ledger *Ledger
	client *clientv3.Client
	folder string // what the keys begin with
	cancel context.CancelFunc
	done   chan struct{} // closed when the watch has ended
	ticked chan struct{} // closed when there are no more ticks

	events []keyEvent
	ticks  []tick
	err    error // of the watch
}

// keyEvent is a revision of a key.
type keyEvent struct {
	name     string
	value    []byte // nil: it was deleted
	revision int64
	got      time.Duration
}

// tick is a read: how far the store was at a time between the two.
type tick struct {
	sent, got time.Duration
	revision  int64
}

// endMark is the name of the key that is written when a keyWatch ends. No resource has it.
const endMark = "\x00 end of the lab's watch"

// RecordEtcd records the documents of an etcd.
func (l *Ledger) RecordEtcd(ctx context.Context, endpoints []string) (Recording, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(),
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second})
	if err != nil {
		return nil, err
	}
	// The namespace, the prefix, the letter of resources, and the name.
	w := &keyWatch{ledger: l, client: c, folder: "holdfast/" + url.PathEscape(l.prefix) + "/r/", done: make(chan struct{}), ticked: make(chan struct{})}
	first, err := w.tick(ctx)
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("ledger: etcd: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = cancel
	go w.watch(run, first+1)
	go w.tickOn(run)
	return w, nil
}

// watch collects the revisions from one on, until the mark. The client continues it over another connection.
func (w *keyWatch) watch(ctx context.Context, from int64) {
	defer close(w.done)
	for r := range w.client.Watch(ctx, w.folder, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		got := w.ledger.now()
		for _, e := range r.Events {
			name := strings.TrimPrefix(string(e.Kv.Key), w.folder)
			if name == endMark {
				return
			}
			k := keyEvent{name: name, revision: e.Kv.ModRevision, got: got}
			if e.Type != clientv3.EventTypeDelete {
				k.value = e.Kv.Value
			}
			w.events = append(w.events, k)
		}
		if err := r.Err(); err != nil {
			w.err = err
		}
	}
	w.err = errors.Join(w.err, errors.New("the watch ended"))
}

// tickOn reads again and again how far the store is.
func (w *keyWatch) tickOn(ctx context.Context) {
	defer close(w.ticked)
	each(ctx, tickEvery, func() { _, _ = w.tick(ctx) }) // the next one shows more
}

// tick reads how far the store is.
func (w *keyWatch) tick(ctx context.Context) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, tickTimeout)
	defer cancel()
	sent := w.ledger.now()
	r, err := w.client.Get(ctx, w.folder, clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	w.ticks = append(w.ticks, tick{sent, w.ledger.now(), r.Header.Revision})
	return r.Header.Revision, nil
}

// Close implements Recording.
func (w *keyWatch) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readThrough)
	defer cancel()
	err := w.mark(ctx)
	if err == nil {
		select {
		case <-w.done:
		case <-ctx.Done():
			err = fmt.Errorf("the watch did not report the last change: %w", ctx.Err())
		}
	}
	w.cancel()
	<-w.done
	<-w.ticked
	if err = errors.Join(err, w.err, w.client.Close()); err != nil {
		return fmt.Errorf("ledger: etcd: %w", err)
	}
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for _, e := range w.events {
		made := w.bounds(e)
		w.ledger.apply(version{resource: e.name, made: made, counted: made, value: e.value})
	}
	return nil
}

// mark writes the last change, and removes it.
func (w *keyWatch) mark(ctx context.Context) error {
	if _, err := w.client.Put(ctx, w.folder+endMark, ""); err != nil {
		return err
	}
	_, err := w.client.Delete(ctx, w.folder+endMark)
	return err
}

// bounds returns the time at which a revision was made.
func (w *keyWatch) bounds(e keyEvent) span {
	made := span{to: e.got}
	for _, t := range w.ticks {
		if t.revision < e.revision {
			made.from = max(made.from, t.sent)
		} else {
			made.to = min(made.to, t.got)
		}
	}
	return made
}
