package subject

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// TimestampGetset is TimestampDel with GETSET in place of DEL: the client that gets the
// stale value holds.
//
// Holes: clients whose clocks differ by more than the timeout take a held lock; the
// GETSET of a losing client changes the winner's deadline; a late holder's DEL frees
// another's lock.
func TimestampGetset() Subject {
	return Subject{ID: "timestamp-getset", Title: "SETNX deadline; GET, GETSET if it has passed", Nodes: 1, Traits: Traits{Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, timestampGetset{s}.try}, nil }}
}

type timestampGetset struct{ Setup }

func (l timestampGetset) try(ctx context.Context, resource string) (*hold, error) {
	got, err := l.node().SetNX(ctx, resource, l.deadline(), 0).Result()
	if err != nil {
		return nil, err
	}
	if !got {
		seen, err := l.stale(ctx, resource)
		if err != nil {
			return nil, err
		}
		if err := l.at(ctx, "acquire.get"); err != nil {
			return nil, err
		}
		old, err := l.node().Do(ctx, "GETSET", resource, l.deadline()).Text()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		if err := l.at(ctx, "acquire.getset"); err != nil {
			return nil, err
		}
		if old != seen {
			return nil, ErrBusy
		}
	}
	return &hold{release: func(ctx context.Context) error { return l.del(ctx, resource) }}, nil
}
