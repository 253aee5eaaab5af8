package goredis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

var _ engine.HistoryKeeper = (*Engine)(nil)

// The history of a prefix is a stream of Redis. The ID of an entry is its position, and has the
// server's time in milliseconds.
func historyKey(prefix string) string { return prefix + ":history" }

// historyField is the only field of an entry.
const historyField = "event"

// historyLife is how long a history lasts after its last event.
const historyLife = 7 * 24 * time.Hour

// AppendHistory implements engine.HistoryKeeper by XADD. Only the last one trims the stream: to do it with each takes a sixth
// of the server's time.
func (e *Engine) AppendHistory(ctx context.Context, prefix string, keep int, events [][]byte) error {
	_, err := e.onHistory(ctx, prefix, func(ctx context.Context, rdb redis.UniversalClient, key string) ([]redis.XMessage, error) {
		sent := make([]redis.Cmder, 0, len(events)+1)
		for i, event := range events {
			args := []any{"xadd", key, "*", historyField, event}
			if i == len(events)-1 {
				args = []any{"xadd", key, "maxlen", "~", keep, "*", historyField, event}
			}
			sent = append(sent, newCommand(ctx, args))
		}
		sent = append(sent, newCommand(ctx, []any{"pexpire", key, historyLife.Milliseconds()}))
		pipe := rdb.Pipeline()
		_ = pipe.BatchProcess(ctx, sent...)
		exec(ctx, pipe)
		for _, cmd := range sent[:len(events)] { // the expiry may be refused
			if err := cmd.Err(); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	return err
}

// History implements engine.HistoryKeeper by XRANGE.
func (e *Engine) History(ctx context.Context, prefix, after string, since time.Time, limit int) ([]engine.HistoryRecord, error) {
	from := "-"
	switch {
	case after != "":
		from = "(" + after
	case since.UnixMilli() > 0:
		from = strconv.FormatInt(since.UnixMilli(), 10)
	}
	found, err := e.onHistory(ctx, prefix, func(ctx context.Context, rdb redis.UniversalClient, key string) ([]redis.XMessage, error) {
		return rdb.XRangeN(ctx, key, from, "+", int64(limit)).Result()
	})
	if err != nil {
		return nil, err
	}
	records, err := recordsOf(found)
	early := func(r engine.HistoryRecord) bool { return r.Written.Before(since.Truncate(time.Millisecond)) }
	return slices.DeleteFunc(records, early), err
}

// HistoryBefore implements engine.HistoryKeeper by XREVRANGE.
func (e *Engine) HistoryBefore(ctx context.Context, prefix, before string, limit int) ([]engine.HistoryRecord, error) {
	from := "+"
	if before != "" {
		from = "(" + before
	}
	found, err := e.onHistory(ctx, prefix, func(ctx context.Context, rdb redis.UniversalClient, key string) ([]redis.XMessage, error) {
		return rdb.XRevRangeN(ctx, key, from, "-", int64(limit)).Result()
	})
	if err != nil {
		return nil, err
	}
	return recordsOf(found)
}

// recordsOf converts entries of a stream.
func recordsOf(entries []redis.XMessage) ([]engine.HistoryRecord, error) {
	records := make([]engine.HistoryRecord, 0, len(entries))
	for _, m := range entries {
		text, _ := m.Values[historyField].(string)
		ms, _, _ := strings.Cut(m.ID, "-")
		at, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return nil, unexpected(fmt.Errorf("stream entry %q: %w", m.ID, err))
		}
		records = append(records, engine.HistoryRecord{Position: m.ID, Written: time.UnixMilli(at), Event: []byte(text)})
	}
	return records, nil
}

// onHistory runs commands on the stream of a prefix.
func (e *Engine) onHistory(ctx context.Context, prefix string, do func(context.Context, redis.UniversalClient, string) ([]redis.XMessage, error)) ([]redis.XMessage, error) {
	if e.broken != nil {
		return nil, e.broken
	}
	if err := checkPrefix(prefix); err != nil {
		return nil, err
	}
	key := historyKey(prefix)
	found, err := bounded(e, ctx, func() ([]redis.XMessage, error) {
		return through(ctx, e, e.batchers.poolOf(ctx, key), func(ctx context.Context, rdb redis.UniversalClient) ([]redis.XMessage, error) {
			return do(ctx, rdb, key)
		})
	})
	return found, e.classify(ctx, err)
}
