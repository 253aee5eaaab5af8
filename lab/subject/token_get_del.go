package subject

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/redis/go-redis/v9"
)

// TokenGetDel sets the key to a random value, which the client compares before it deletes
// the key: GET, compare, DEL.
//
// Hole: the lock expires and is taken between GET and DEL.
func TokenGetDel() Subject {
	return Subject{ID: "token-get-del", Title: "SET NX PX value; GET, compare, DEL", Nodes: 1, Traits: Traits{Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, tokenGetDel{s}.try}, nil }}
}

type tokenGetDel struct{ Setup }

func (l tokenGetDel) try(ctx context.Context, resource string) (*hold, error) {
	value := rand.Text()
	got, err := l.node().SetNX(ctx, resource, value, l.TTL).Result()
	if err != nil {
		return nil, err
	}
	if !got {
		return nil, ErrBusy
	}
	return &hold{release: func(ctx context.Context) error { return l.release(ctx, resource, value) }}, nil
}

func (l tokenGetDel) release(ctx context.Context, resource, value string) error {
	found, err := l.node().Get(ctx, resource).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if found != value {
		return ErrNotHeld
	}
	if err := l.at(ctx, "release.get"); err != nil {
		return err
	}
	return l.node().Del(ctx, resource).Err()
}
