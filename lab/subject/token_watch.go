package subject

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/redis/go-redis/v9"
)

// TokenWatch compares and deletes under WATCH, and tries again on a conflict.
//
// Correct while its holder runs; costs four round trips. Hole: a paused holder writes
// after its TTL.
func TokenWatch() Subject {
	return Subject{ID: "token-watch", Title: "SET NX PX value; WATCH, GET, MULTI, DEL, EXEC", Nodes: 1, Traits: Traits{Renews: true, Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, tokenWatch{s}.try}, nil }}
}

type tokenWatch struct{ Setup }

func (l tokenWatch) try(ctx context.Context, resource string) (*hold, error) {
	value := rand.Text()
	got, err := l.node().SetNX(ctx, resource, value, l.TTL).Result()
	if err != nil {
		return nil, err
	}
	if !got {
		return nil, ErrBusy
	}
	return &hold{
		extend: func(ctx context.Context) error {
			return l.ifMine(ctx, resource, value, "renew.get", func(p redis.Pipeliner) { p.Set(ctx, resource, value, l.TTL) })
		},
		release: func(ctx context.Context) error {
			return l.ifMine(ctx, resource, value, "release.get", func(p redis.Pipeliner) { p.Del(ctx, resource) })
		},
	}, nil
}

// ifMine changes the key in a transaction if it still has the value.
func (l tokenWatch) ifMine(ctx context.Context, resource, value, step string, do func(redis.Pipeliner)) error {
	for {
		err := l.node().Watch(ctx, func(tx *redis.Tx) error {
			found, err := tx.Get(ctx, resource).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				return err
			}
			if found != value {
				return ErrNotHeld
			}
			if err := l.at(ctx, step); err != nil {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { do(p); return nil })
			return err
		}, resource)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}
