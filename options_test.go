package holdfast_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

func TestNewRefusesBadOptions(t *testing.T) {
	long := strings.Repeat("x", 257)
	for name, opt := range map[string]holdfast.Option{
		"empty prefix":       holdfast.WithPrefix(""),
		"prefix with braces": holdfast.WithPrefix("a{b}"),
		"long prefix":        holdfast.WithPrefix(long[:129]),
		"prefix not UTF-8":   holdfast.WithPrefix("\xff"),
		"long name":          holdfast.WithName(long),
		"name not UTF-8":     holdfast.WithName("\xff"),
		"long host":          holdfast.WithMeta(holdfast.Meta{Host: long}),
		"nil hook":           holdfast.WithHooks(nil),
		"hook of no use":     holdfast.WithHooks(struct{}{}),
		"nil option":         nil,
	} {
		c, err := holdfast.New(memory.New(), opt)
		if c != nil {
			t.Errorf("%s: a client", name)
		}
		wantErr(t, err, holdfast.ErrInvalid)
		if len(err.Error()) < 25 {
			t.Errorf("%s: the text %q does not say what to do", name, err)
		}
	}
	c, err := holdfast.New(nil)
	if c != nil || err == nil || !strings.Contains(err.Error(), "goredis.New") {
		t.Errorf("nil engine: %v", err)
	}
}

func TestNewAcceptsWhatIsAllowed(t *testing.T) {
	c := newClient(t, memory.New(), holdfast.WithPrefix(strings.Repeat("p", 128)), holdfast.WithName(""),
		holdfast.WithMeta(holdfast.Meta{}), holdfast.WithLogger(nil), holdfast.WithLogger(slog.New(slog.DiscardHandler)))
	for _, name := range []string{"x", "{a} b", strings.Repeat("n", 512), "库存:42", "a\x00b", "*?\\"} {
		l, err := c.Mutex(name, holdfast.WithTTL(100*time.Millisecond)).TryLock(t.Context())
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		mustRelease(t, l)
	}
	mustRelease(t, mustLock(t, c.Mutex("ttl", holdfast.WithTTL(24*time.Hour)).Lock, t.Context()))
}

func TestLockRefusesBadOptions(t *testing.T) {
	e := newFaulty()
	c := newClient(t, e)
	for what, m := range map[string]*holdfast.Mutex{
		"empty name":       c.Mutex(""),
		"long name":        c.Mutex(strings.Repeat("n", 513)),
		"name not UTF-8":   c.Mutex("a\xffb"),
		"TTL too short":    c.Mutex("x", holdfast.WithTTL(100*time.Millisecond-1)),
		"TTL too long":     c.Mutex("x", holdfast.WithTTL(24*time.Hour+1)),
		"no TTL":           c.Mutex("x", holdfast.WithTTL(0)),
		"negative TTL":     c.Mutex("x", holdfast.WithTTL(-time.Second)),
		"long reason":      c.Mutex("x", holdfast.WithReason(strings.Repeat("r", 257))),
		"reason not UTF-8": c.Mutex("x", holdfast.WithReason("\xff")),
		"nil option":       c.Mutex("x", nil),
	} {
		mustNotLock(t, m.Lock, t.Context(), holdfast.ErrInvalid)
		mustNotLock(t, m.TryLock, t.Context(), holdfast.ErrInvalid)
		wantErr(t, m.Do(t.Context(), func(context.Context) error { t.Error(what, "fn ran"); return nil }), holdfast.ErrInvalid)
	}
	if e.Count("acquire") != 0 {
		t.Error("the store was called")
	}
	_, err := c.Snapshot(t.Context(), "")
	wantErr(t, err, holdfast.ErrInvalid)
	wantErr(t, c.Break(t.Context(), "", "id"), holdfast.ErrInvalid)
	wantErr(t, c.Break(t.Context(), "x", ""), holdfast.ErrInvalid)
	for _, text := range []string{"", "x", "holdfast1.", "holdfast1.!!", "holdfast1.e30", "holdfast1.bnVsbA"} {
		_, err := c.Adopt(t.Context(), text)
		wantErr(t, err, holdfast.ErrInvalid)
	}
}

func TestPrefixesAreApart(t *testing.T) {
	e := memory.New()
	a, b := newClient(t, e, holdfast.WithPrefix("a")), newClient(t, e, holdfast.WithPrefix("b"))
	l := mustLock(t, a.Mutex("x").Lock, t.Context())
	other := mustLock(t, b.Mutex("x").TryLock, t.Context())
	mustRelease(t, other)
	mustRelease(t, l)
}
