package goredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// fewRenewals is up to how many a call for many does not pay.
const fewRenewals = 4

// renewTogether renews the leases of one server with a call for many of them each.
// It asks by itself for those that such a call leaves, as those that others wait
// for, and where it cannot be made: for lack of memory, or with a foreign key
// among the resources.
func (e *Engine) renewTogether(ctx context.Context, rdb redis.UniversalClient, calls []script.Call) []reply {
	var parts []script.Call
	for from := 0; from < len(calls); from += script.MostRenewed {
		parts = append(parts, e.scripts.RenewAll(calls[from:min(from+script.MostRenewed, len(calls))]))
	}
	replies := make([]reply, len(calls))
	var alone []int
	for p, r := range batch(ctx, rdb, parts) {
		from := p * script.MostRenewed
		till := min(from+script.MostRenewed, len(calls))
		var answered redis.Error
		done, ok := script.ReadRenewed(r.value, till-from)
		for i := from; i < till; i++ {
			switch {
			case r.err != nil && !errors.As(r.err, &answered):
				replies[i].err = r.err
			case r.err == nil && ok && done[i-from]:
				replies[i].value = int64(0) // held; how long is of no interest here
			default:
				alone = append(alone, i)
			}
		}
	}
	if len(alone) == 0 {
		return replies
	}
	if err := ctx.Err(); err != nil {
		for _, i := range alone {
			replies[i].err = err
		}
		return replies
	}
	for n, r := range batch(ctx, rdb, pick(calls, alone)) {
		replies[alone[n]] = r
	}
	return replies
}
