package goredis_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// lostReply loses the reply to one script: the second after the hook is set.
type lostReply struct{ scripts atomic.Int32 }

func (l *lostReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lostReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if isScript(cmd) && l.scripts.Add(1) == 2 {
			err = io.EOF
			cmd.SetErr(err)
		}
		return err
	}
}

func (l *lostReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The first call of Acquire clears one of two expired leases and finds the other in its way. The
// second is granted, but its reply is lost: the outcome is unknown, and not that of the first.
func TestOutcomeAfterClearingIsUnknown(t *testing.T) {
	ctx, rdb := t.Context(), redistest.Start(t).Client()
	fragments := maps.Clone(virtual())
	fragments["PORTION"] = "1"
	e := open(t, rdb, goredis.WithFragments(fragments))
	now := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	must(t, rdb.Set(ctx, "virtual:now", now.UnixMicro(), 0).Err())
	hold(t, e, shared("c1.a", 1))
	hold(t, e, shared("c1.b", 1))
	must(t, rdb.Set(ctx, "virtual:now", now.Add(time.Minute).UnixMicro(), 0).Err())

	lost := &lostReply{}
	rdb.AddHook(lost)
	r := shared("c2.c", 3)
	r.Queue = false
	if a, err := e.Acquire(ctx, r); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("Acquire: %+v, %v", a, err)
	}
	if n := lost.scripts.Load(); n < 2 {
		t.Fatalf("%d scripts ran, so no reply was lost", n)
	}
	if a, err := e.Acquire(ctx, r); err != nil || a.Status != engine.Granted {
		t.Errorf("Acquire again: %+v, %v", a, err)
	}
}
