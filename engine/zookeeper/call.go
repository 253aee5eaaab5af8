package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

// callsAtOnce bounds the calls of the connection under way, and with them the goroutines that
// wait for a server that does not answer.
const callsAtOnce = 256

// call makes a call of the connection, which has no ctx, and returns soon after ctx has ended.
// The call then goes on: it may take effect, and keeps its slot until the connection has
// answered it or is lost, at most two thirds of the session timeout later.
func call[T any](ctx context.Context, s *store, path string, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, ended(ctx)
	}
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return none, fmt.Errorf("zookeeper: %d calls wait for an answer: %w", callsAtOnce, ended(ctx))
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-s.calls }()
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, refusal(r.err, path)
	case <-ctx.Done():
		return none, fmt.Errorf("zookeeper: no answer (the connection is %q): %w", s.conn.State(), ended(ctx))
	}
}

// ended returns why ctx ended: its error and, if it differs, its cause.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// refusal wraps the errors that a retry cannot mend in engine.ErrDenied. Rights are by znode.
func refusal(err error, path string) error {
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return cas.OneOfMany(fmt.Errorf("%w: zookeeper: no rights on %s or its parent: give the connection credentials (zk.Conn.AddAuth) that their ACLs admit with "+
			"read, write, create and delete: %w", engine.ErrDenied, path, err))
	case errors.Is(err, zk.ErrAuthFailed):
		return fmt.Errorf("%w: zookeeper: the server refused the credentials of the connection: %w", engine.ErrDenied, err)
	case errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("%w: zookeeper: the server refused the ACL for %s: see WithACL; zk.AuthACL needs a connection with credentials: %w",
			engine.ErrDenied, path, err)
	case errors.Is(err, zk.ErrInvalidPath):
		return fmt.Errorf("%w: zookeeper: %s is not a path: see WithRoot: %w", engine.ErrDenied, path, err)
	}
	return err
}

// each runs f for 0 to n-1, all at the same time, and returns the first error.
func each(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// sync waits until the server of the connection has what was committed before.
func (s *store) sync(ctx context.Context) error {
	_, err := call(ctx, s, s.root, func() (string, error) { return s.conn.Sync(s.root) })
	return err
}

// children returns the names of a znode's children, and none if there is no such znode.
func (s *store) children(ctx context.Context, path string) ([]string, error) {
	names, err := call(ctx, s, path, func() ([]string, error) {
		names, _, err := s.conn.Children(path)
		return names, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// multi makes several changes, or none and returns the index of the one that failed.
func (s *store) multi(ctx context.Context, path string, ops []any) (failed int, err error) {
	results, err := call(ctx, s, path, func() ([]zk.MultiResponse, error) { return s.conn.Multi(ops...) })
	for i, r := range results {
		if r.Error != nil {
			return i, err
		}
	}
	return 0, err
}

// makeFolder creates a znode and those above it that are missing. The server removes them when they have
// been empty for some time.
func (s *store) makeFolder(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	create := func() error {
		_, err := call(ctx, s, path, func() (string, error) {
			return s.conn.CreateContainer(path, nil, zk.FlagContainer, s.acl)
		})
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		return err
	}
	err := create()
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if err := s.makeFolder(ctx, above(path)); err != nil {
		return err
	}
	return create()
}
