package holdfast

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A TraceHook is called when an acquire begins, unless it re-enters a lease. It
// returns the span that ctx carries, or the zero SpanRef if there is none that is
// recorded. The store keeps it beside the reason of the lease, so that an acquire
// that waits for the lease can refer to it: see AcquireEndEvent.HolderSpan.
type TraceHook interface {
	Trace(ctx context.Context) SpanRef
}

// A SpanRef identifies a span, as W3C Trace Context does. The zero value is none.
type SpanRef struct {
	TraceID [16]byte
	SpanID  [8]byte
}

// The span of a request is stored behind its reason (decision 0145): a separator, and the
// two IDs in base64. A text that only looks like this gets the zero SpanRef behind it, so
// that every text is read as it was written.
const (
	spanMark = '\x1f' // the unit separator of ASCII
	spanLen  = 32     // of 24 bytes in base64
)

// joinSpan returns the text of a request for the store.
func joinSpan(reason string, s SpanRef) string {
	if visible, _ := splitSpan(reason); s == (SpanRef{}) && visible == reason {
		return reason
	}
	var ids [24]byte
	copy(ids[copy(ids[:], s.TraceID[:]):], s.SpanID[:])
	b := make([]byte, 0, len(reason)+1+spanLen)
	b = append(append(b, reason...), spanMark)
	return string(base64.RawURLEncoding.AppendEncode(b, ids[:]))
}

// splitSpan returns the reason and the span of which the store has the text.
func splitSpan(text string) (reason string, s SpanRef) {
	n := len(text) - spanLen - 1
	if n < 0 || text[n] != spanMark {
		return text, SpanRef{}
	}
	ids, err := base64.RawURLEncoding.DecodeString(text[n+1:])
	if err != nil || len(ids) != 24 {
		return text, SpanRef{}
	}
	copy(s.SpanID[:], ids[copy(s.TraceID[:], ids):])
	return text[:n], s
}

// visible returns the reason of which the store has the text.
func visible(text string) string {
	reason, _ := splitSpan(text)
	return reason
}

// callSpans are the span in which an acquire is made, and that of the holder it waits for.
type callSpans struct {
	own  SpanRef
	look *holderLook // nil: it has not waited
}

// begin sets the span of the acquire.
func (s *callSpans) begin(ctx context.Context, hooks []TraceHook) {
	for _, hook := range hooks {
		if s.own == (SpanRef{}) {
			s.own = hook.Trace(ctx)
		}
	}
}

// waits begins to look for the holder, if the acquire has a span, which is worth a request.
func (s *callSpans) waits(lk *acquirer) {
	if s != nil && s.own != (SpanRef{}) && s.look == nil {
		s.look = lk.lookLater()
	}
}

// holder ends the look and returns the span of the holder, if it is known and another one than
// that of the acquire, which may have been granted before the look. err is how the acquire ended.
func (s *callSpans) holder(err error) (is SpanRef) {
	if s.look != nil {
		is = s.look.end()
	}
	held, ok := errors.AsType[*HeldError](err)
	if is == (SpanRef{}) && ok {
		is = held.span
	}
	if is == s.own {
		return SpanRef{}
	}
	return is
}

// lookAfter is how long an acquire has waited when it looks for the holder, since the
// answer that a request is queued does not name it. Shorter waits cost no request.
const lookAfter = engine.PollInterval

// holderLook is one look, in the background, at the holder that an acquire waits for.
type holderLook struct {
	timer  *time.Timer
	cancel context.CancelFunc
	span   chan SpanRef
}

func (lk *acquirer) lookLater() *holderLook {
	ctx, cancel := context.WithCancel(lk.c.life)
	k := &holderLook{cancel: cancel, span: make(chan SpanRef, 1)}
	k.timer = time.AfterFunc(lookAfter, func() {
		defer cancel()
		k.look(ctx, lk)
	})
	return k
}

// look reads the holder. A capacity above 1 has none in a Brief.
func (k *holderLook) look(ctx context.Context, lk *acquirer) {
	if !lk.c.gate.Enter() {
		return
	}
	defer lk.c.gate.Leave()
	if b, err := lk.c.engine.Peek(ctx, lk.resource()); err == nil && len(b.Holders) > 0 {
		_, is := splitSpan(b.Holders[0].Reason)
		k.span <- is
	}
}

// end returns the span that was found, and ends a look under way without waiting for it:
// Close does.
func (k *holderLook) end() SpanRef {
	k.timer.Stop()
	k.cancel()
	select {
	case is := <-k.span:
		return is
	default:
		return SpanRef{}
	}
}
