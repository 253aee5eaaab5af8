package endure

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast"
)

// handTicket detaches a lease, and the other client adopts it.
func handTicket(ctx context.Context, m *member, name string) error {
	l, err := m.c.Mutex(name, short()).Lock(ctx)
	if err != nil {
		return err
	}
	ticket, err := l.Detach(ctx)
	if err != nil {
		return errors.Join(err, l.Release(ctx))
	}
	adopted, err := m.second.Adopt(ctx, ticket)
	if err != nil {
		return err
	}
	return adopted.Release(ctx)
}

// multi takes three resources.
func multi(ctx context.Context, m *member, name string) error {
	return m.c.Multi([]string{name + "/a", name + "/b", name + "/c"}, short()).Do(ctx, func(ctx context.Context) error {
		pause(ctx, 5*time.Millisecond)
		return nil
	})
}

// condition waits for a signal of the other client.
func condition(ctx context.Context, m *member, name string) error {
	mine, theirs := m.c.Mutex(name, short()), m.second.Mutex(name, short())
	l, err := mine.Lock(ctx)
	if err != nil {
		return err
	}
	signalled := make(chan error, 1)
	go func() {
		signalled <- theirs.Do(ctx, func(ctx context.Context) error { return theirs.Cond("changed").Signal(ctx) })
	}()
	again, err := mine.Cond("changed").Wait(ctx, l)
	if err == nil {
		err = again.Release(ctx)
	}
	return errors.Join(err, <-signalled)
}

// election leads for a moment, and is observed.
func election(ctx context.Context, m *member, name string) error {
	l, err := m.c.Election(name, short()).Campaign(ctx, m.Name)
	if err != nil {
		return err
	}
	err = errMissed
	for leader, observed := range m.second.Election(name, short()).Observe(ctx) {
		if err = observed; err == nil && leader.Value != m.Name {
			err = errMissed
		}
		break
	}
	return errors.Join(err, l.Release(ctx))
}

// reentry enters twice.
func reentry(ctx context.Context, m *member, name string) error {
	lock := m.c.Mutex(name, short(), holdfast.WithReentrancy())
	return lock.Do(ctx, func(ctx context.Context) error {
		return lock.Do(ctx, func(context.Context) error { return nil })
	})
}

// fallback goes on in the process while the store is away.
func fallback(ctx context.Context, m *member, name string) error {
	return m.c.Mutex(name, short(), holdfast.WithFallback(holdfast.LocalOnly)).Do(ctx, func(context.Context) error { return nil })
}

// read reads a resource, a list, and the history. The list is short: an engine remembers the description of each client that
// it has seen in one, up to 4,096 of them, and in an hour that would be a steady rise.
func read(ctx context.Context, m *member, name string) error {
	if _, err := m.c.Snapshot(ctx, name); err != nil {
		return err
	}
	for _, err := range m.c.List(ctx, "guarded:1") {
		if err != nil {
			return err
		}
	}
	events := 0
	for _, err := range m.c.History(ctx, holdfast.HistoryQuery{Newest: true}) {
		if err != nil {
			return err
		}
		if events++; events == 10 {
			break
		}
	}
	return nil
}

// shortClient opens connections, an engine and a client, uses them, and closes them.
func shortClient(ctx context.Context, m *member, name string) error {
	e, end, err := openEngine(m.Store, m.URLs, m.Name)
	if err != nil {
		return err
	}
	defer end()
	c, err := holdfast.New(e, holdfast.WithPrefix(prefix), holdfast.WithName(m.Name), holdfast.WithHooks(&m.tally))
	if err != nil {
		return err
	}
	l, err := c.Mutex(name, short()).Lock(ctx)
	if err == nil {
		pause(ctx, 1500*time.Millisecond) // perhaps until it listens
		err = l.Err()
	}
	return errors.Join(err, c.Close()) // Close releases the lease
}
