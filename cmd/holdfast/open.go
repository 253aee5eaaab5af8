package main

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// askLimit bounds one question to the store: a person or a script waits.
const askLimit = 3 * time.Second

// closeLimit bounds the end of the program.
const closeLimit = time.Second

// session is a Holdfast client with its connections.
type session struct {
	*holdfast.Client
	store *store.Store
	at    string // the store in words
}

// open makes a client for the store of the command line. It does not connect.
func (e *env) open(opts ...holdfast.Option) (*session, error) {
	st, err := store.Open(e.url)
	if err != nil {
		return nil, err
	}
	opts = append([]holdfast.Option{holdfast.WithPrefix(e.prefix)}, opts...)
	c, err := holdfast.New(st.Engine(), opts...)
	if err != nil {
		st.Close()
		return nil, err
	}
	return &session{Client: c, store: st, at: st.String()}, nil
}

// reach asks the store for something small, to tell soon that it is away.
func (s *session) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	_, err := s.Snapshot(ctx, "reach")
	return err
}

// close gives back what is still held and disconnects. What a store that is away
// has not confirmed by closeLimit ends by its TTL: nobody waits longer for it.
func (s *session) close() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Client.Close() // the verb has its answer already
		_ = s.store.Close()
	}()
	select {
	case <-done:
	case <-time.After(closeLimit):
	}
}
