package subject

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// TimestampDel stores the deadline of the lock, by the client's clock, with SETNX, and
// removes it with DEL when it has passed.
//
// Hole: two clients see the stale value; the DEL of the second removes the fresh
// lock of the first, and both hold.
func TimestampDel() Subject {
	return Subject{ID: "timestamp-del", Title: "SETNX deadline; GET, DEL, SETNX if it has passed", Nodes: 1, Traits: Traits{Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, timestampDel{s}.try}, nil }}
}

type timestampDel struct{ Setup }

func (l timestampDel) try(ctx context.Context, resource string) (*hold, error) {
	got, err := l.node().SetNX(ctx, resource, l.deadline(), 0).Result()
	if err != nil {
		return nil, err
	}
	if !got {
		if _, err := l.stale(ctx, resource); err != nil {
			return nil, err
		}
		if err := l.at(ctx, "acquire.get"); err != nil {
			return nil, err
		}
		if err := l.node().Del(ctx, resource).Err(); err != nil {
			return nil, err
		}
		if err := l.at(ctx, "acquire.del"); err != nil {
			return nil, err
		}
		if got, err = l.node().SetNX(ctx, resource, l.deadline(), 0).Result(); err != nil {
			return nil, err
		}
		if !got {
			return nil, ErrBusy
		}
	}
	return &hold{release: func(ctx context.Context) error { return l.del(ctx, resource) }}, nil
}

// deadline returns now + timeout + 1 by the client's clock, in milliseconds.
func (s Setup) deadline() int64 { return s.Clock.Now().UnixMilli() + s.millis() + 1 }

// stale returns the stored deadline if it has passed by the client's clock, and ErrBusy
// otherwise.
func (s Setup) stale(ctx context.Context, resource string) (string, error) {
	text, err := s.node().Get(ctx, resource).Result()
	if errors.Is(err, redis.Nil) {
		return "", ErrBusy // deleted in the meantime: try again
	}
	if err != nil {
		return "", err
	}
	end, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", err
	}
	if end >= s.Clock.Now().UnixMilli() {
		return "", ErrBusy
	}
	return text, nil
}
