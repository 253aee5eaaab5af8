package subject

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ReentrantCounter stores the holder in one string and the number of its entries in
// another, both changed under WATCH.
//
// Hole: each call makes a new value, so no call re-enters, and a holder that locks again
// waits for itself. It hides those of ReentrantCounterKept.
func ReentrantCounter() Subject {
	return reentrantCounterSubject("reentrant-counter", "string + counter key, WATCH and MULTI", false)
}

// ReentrantCounterKept is ReentrantCounter with the value of the hold that it re-enters.
//
// Holes: re-entry does not extend the TTL; counter and lock expire separately, and a
// re-entry that is late counts for the next holder.
func ReentrantCounterKept() Subject {
	return reentrantCounterSubject("reentrant-counter-kept", "reentrant-counter, re-enters with its value", true)
}

func reentrantCounterSubject(id, title string, kept bool) Subject {
	return Subject{ID: id, Title: title, Nodes: 1, Traits: Traits{Windows: true, Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, reentrantCounter{s, kept}.try}, nil }}
}

type reentrantCounter struct {
	Setup
	kept bool // re-enters with the value of the hold under ctx
}

func (l reentrantCounter) try(ctx context.Context, resource string) (*hold, error) {
	start, value := time.Now(), rand.Text()
	if thread := threadOf(ctx); l.kept && thread != "" {
		value = thread
	}
	err := l.node().Watch(ctx, func(tx *redis.Tx) error {
		found, err := tx.Get(ctx, resource).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if err := l.at(ctx, "acquire.get"); err != nil {
			return err
		}
		switch found {
		case "":
			_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, resource, value, l.TTL)
				p.Set(ctx, resource+":counter", 1, l.TTL)
				return nil
			})
		case value:
			err = tx.Incr(ctx, resource+":counter").Err()
		default:
			err = ErrBusy
		}
		return err
	}, resource)
	if errors.Is(err, redis.TxFailedErr) {
		err = ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return &hold{until: start.Add(l.TTL), thread: value, release: func(ctx context.Context) error { return l.release(ctx, resource, value) }}, nil
}

func (l reentrantCounter) release(ctx context.Context, resource, value string) error {
	return l.node().Watch(ctx, func(tx *redis.Tx) error {
		found, err := tx.Get(ctx, resource).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if found != value {
			return ErrNotHeld
		}
		count, err := tx.Get(ctx, resource+":counter").Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		if err := l.at(ctx, "release.get"); err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			if count > 1 {
				p.Decr(ctx, resource+":counter")
			} else {
				p.Del(ctx, resource, resource+":counter")
			}
			return nil
		})
		return err
	}, resource)
}
