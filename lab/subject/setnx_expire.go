package subject

import (
	"context"
)

// SetnxExpire is the lock of the oldest articles: SETNX, then EXPIRE.
//
// Hole: a client that dies between the two leaves a key without a TTL, and the
// resource is locked for ever.
func SetnxExpire() Subject {
	return Subject{ID: "setnx-expire", Title: "SETNX, then EXPIRE; DEL", Nodes: 1, Traits: Traits{Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, setnxExpire{s}.try}, nil }}
}

type setnxExpire struct{ Setup }

func (l setnxExpire) try(ctx context.Context, resource string) (*hold, error) {
	got, err := l.node().SetNX(ctx, resource, 1, 0).Result()
	if err != nil {
		return nil, err
	}
	if !got {
		return nil, ErrBusy
	}
	if err := l.at(ctx, "acquire.setnx"); err != nil {
		return nil, err
	}
	if err := l.node().PExpire(ctx, resource, l.TTL).Err(); err != nil {
		return nil, err
	}
	return &hold{release: func(ctx context.Context) error { return l.del(ctx, resource) }}, nil
}

// del releases locks whose key has no identity.
func (s Setup) del(ctx context.Context, resource string) error {
	if err := s.at(ctx, "release.start"); err != nil {
		return err
	}
	return s.node().Del(ctx, resource).Err()
}
