package goredis

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// minMergedRenewals is the number up to which merging renewals costs more than it saves.
const minMergedRenewals = 4

// mergedRange is the half-open range of the renewals in one merged call.
type mergedRange struct{ from, till int }

// renewMerged renews leases of one server with merged calls, and stores the outcomes in
// errs. It returns the indexes of those that must be renewed one by one: those that a merged
// call does not renew, such as leases of a capacity above 1, and all of a call that Redis
// refuses, because it is out of memory or a key has another type.
func (e *Engine) renewMerged(ctx context.Context, rdb redis.UniversalClient, all []engine.Renewal, errs []error) (left []int) {
	var joints []mergedRange
	var calls []script.Call
	var text []byte
	for from := 0; from < len(all); {
		till := from + alike(all[from:])
		if till == from {
			left = append(left, from)
			from++
			continue
		}
		var c script.Call
		c, text = e.renewAll(all[from:till], text)
		joints, calls = append(joints, mergedRange{from, till}), append(calls, c)
		from = till
	}
	if len(calls) == 0 {
		return left
	}
	replies, err := e.sendRenewals(ctx, rdb, calls)
	for i, j := range joints {
		failure := err
		if err == nil {
			failure = replies[i].err
		}
		switch {
		case failure == nil:
			others, ok := script.ReadRenewed(replies[i].value, j.till-j.from)
			for _, n := range others {
				left = append(left, j.from+n)
			}
			if !ok {
				left = j.appendTo(left)
			}
		case isAnswer(failure):
			left = j.appendTo(left)
		default:
			failure = e.classify(ctx, failure)
			for n := j.from; n < j.till; n++ {
				errs[n] = failure
			}
		}
	}
	return left
}

func (j mergedRange) appendTo(left []int) []int {
	for n := j.from; n < j.till; n++ {
		left = append(left, n)
	}
	return left
}

// alike returns how many of the first renewals fit into one call. It is 0 if the first one
// cannot be merged.
func alike(all []engine.Renewal) int {
	first := all[0]
	if checkTTL(first.TTL) != nil || checkPrefix(first.Resource.Prefix) != nil {
		return 0
	}
	n := 0
	for n < min(len(all), script.MaxRenewed) {
		r := &all[n]
		if r.TTL != first.TTL || r.Resource.Prefix != first.Resource.Prefix || r.Resource.Name == "" ||
			r.ID == "" || strings.IndexByte(r.ID, ' ') >= 0 {
			break
		}
		n++
	}
	return n
}

// renewAll makes the call for renewals that are alike. It uses text as scratch space and
// returns it.
func (e *Engine) renewAll(some []engine.Renewal, text []byte) (script.Call, []byte) {
	cores, ends := make([]string, len(some)), [script.MaxRenewed]int{}
	text = text[:0]
	for i := range some {
		text = appendCore(text, some[i].Resource)
		ends[i] = len(text)
	}
	whole, start := string(text), 0
	for i := range cores {
		cores[i] = whole[start:ends[i]]
		start = ends[i]
	}
	text = text[:0]
	for i := range some {
		text = append(append(text, some[i].ID...), ' ')
	}
	return e.scripts.RenewBatch(some[0].TTL, cores, string(text[:len(text)-1])), text
}
