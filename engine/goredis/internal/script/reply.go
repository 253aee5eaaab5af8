package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// replyReader reads the elements of a reply one by one. It keeps the first mismatch, so that
// callers check once. A mismatch means that the store runs something other than the script.
type replyReader struct {
	rest []any
	err  error
}

func readReply(reply any) *replyReader {
	list, ok := reply.([]any)
	r := &replyReader{rest: list}
	if !ok {
		r.fail(reply)
	}
	return r
}

func (r *replyReader) fail(got any) {
	if r.err == nil {
		r.err = fmt.Errorf("unexpected reply of a script: %T %v", got, got)
	}
}

func (r *replyReader) next() any {
	if len(r.rest) == 0 {
		r.fail("too few elements")
		return nil
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

func (r *replyReader) number() int64 {
	v := r.next()
	n, ok := v.(int64)
	if !ok {
		r.fail(v)
	}
	return n
}

func (r *replyReader) text() string {
	v := r.next()
	s, ok := v.(string)
	if !ok {
		r.fail(v)
	}
	return s
}

func (r *replyReader) list() *replyReader {
	v := r.next()
	list, ok := v.([]any)
	if !ok {
		r.fail(v)
	}
	return &replyReader{rest: list}
}

func (r *replyReader) token() uint64 { return uint64(r.number()) }

func (r *replyReader) duration() time.Duration { return micros(r.number()) }

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// A Refusal is why nothing is held. The zero value is that something is.
type Refusal struct {
	Cause  int
	Reason string // of a break
}

// outcome reads the reply of renew, release, resize and break: a number that is not negative, or
// why nothing is held.
func outcome(reply any) (value int64, why Refusal, err error) {
	switch reply := reply.(type) {
	case int64:
		if reply < 0 {
			return 0, Refusal{Cause: int(-reply)}, nil
		}
		return reply, Refusal{}, nil
	case string:
		return 0, Refusal{int(engine.CauseBroken), reply}, nil
	}
	return 0, Refusal{}, fmt.Errorf("unexpected reply of a script: %T %v", reply, reply)
}

// fields splits an info: n numbers and the reason, which may be any text. A malformed info gives
// zeros.
func fields(info string, n int) (numbers []int64, reason string) {
	numbers = make([]int64, n)
	for i := range numbers {
		word, rest, ok := strings.Cut(info, " ")
		v, err := strconv.ParseInt(word, 10, 64)
		if !ok || err != nil {
			return make([]int64, n), ""
		}
		numbers[i], info = v, rest
	}
	return numbers, info
}

// kind splits "kind:capacity".
func kind(s string) (name string, capacity int) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0
	}
	capacity, _ = strconv.Atoi(s[i+1:])
	return s[:i], capacity
}

// Holder is a live lease as the scripts return it.
type Holder struct {
	ID, Reason string
	Weight     int
	Token      uint64
	Since      time.Time // by the store's clock
	TTL        time.Duration
	Breaking   bool
}

// breaking begins the name of a lease that is breaking.
const breaking = "!"

// holders reads a list of names, deadlines and infos.
func (r *replyReader) holders(now int64, capacity int, last uint64) []Holder {
	var all []Holder
	for len(r.rest) > 0 {
		id, deadline, info := r.text(), r.text(), r.text()
		until, err := strconv.ParseInt(deadline, 10, 64)
		if err != nil {
			r.fail(deadline)
		}
		all = append(all, holder(capacity, last, id, info, micros(until-now)))
	}
	return all
}

// holder reads the name and the info of a lease. With capacity 1 the info is "reserve since
// reason", and the token follows from the last one; otherwise it is "weight token
// since reason". A since of 0 is the token's time.
func holder(capacity int, last uint64, name, info string, ttl time.Duration) Holder {
	h := Holder{Weight: 1, TTL: ttl}
	h.ID, h.Breaking = strings.CutPrefix(name, breaking)
	var since int64
	if capacity == 1 {
		n, reason := fields(info, 2)
		h.Token, since, h.Reason = last-uint64(n[0]), n[1], reason
	} else {
		n, reason := fields(info, 3)
		h.Weight, h.Token, since, h.Reason = int(n[0]), uint64(n[1]), n[2], reason
	}
	if since == 0 {
		since = int64(h.Token)
	}
	h.Since = time.UnixMicro(since)
	return h
}
