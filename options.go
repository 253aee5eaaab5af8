package holdfast

import (
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"
)

// Defaults and limits of options.
const (
	// DefaultPrefix is the prefix of every key in the store.
	DefaultPrefix = "holdfast"
	// DefaultTTL is the TTL of a lease; it is renewed every third of it.
	DefaultTTL = 15 * time.Second
	// MinTTL and MaxTTL bound WithTTL.
	MinTTL = 100 * time.Millisecond
	MaxTTL = 24 * time.Hour
	// MaxNameLen is the longest name of a resource, in bytes.
	MaxNameLen = 512

	maxPrefixLen = 128
	maxTextLen   = 256
)

// Option configures a Client.
type Option func(*clientOptions)

type clientOptions struct {
	prefix string
	name   string
	meta   *Meta
	logger *slog.Logger
	hooks  []Hook
	err    error
}

// WithPrefix sets what every key in the store begins with (default "holdfast"),
// so that applications can share a store. Resources of different prefixes are
// different. At most 128 bytes of UTF-8 without braces.
func WithPrefix(prefix string) Option {
	return func(o *clientOptions) {
		if prefix == "" || len(prefix) > maxPrefixLen || !utf8.ValidString(prefix) || strings.ContainsAny(prefix, "{}") {
			o.fail(optionError("prefix %q: use 1 to %d bytes of UTF-8 without braces", prefix, maxPrefixLen))
		}
		o.prefix = prefix
	}
}

// WithName sets the program or service that operators see (default: the name of
// the executable). At most 256 bytes.
func WithName(name string) Option {
	return func(o *clientOptions) {
		if len(name) > maxTextLen || !utf8.ValidString(name) {
			o.fail(optionError("name %q: use at most %d bytes of UTF-8", name, maxTextLen))
		}
		o.name = name
	}
}

// Meta is what a client tells operators about where it runs.
type Meta struct {
	Host string // default os.Hostname
	PID  int    // default os.Getpid
}

// WithMeta replaces what the client tells about where it runs.
func WithMeta(m Meta) Option {
	return func(o *clientOptions) {
		if len(m.Host) > maxTextLen || !utf8.ValidString(m.Host) {
			o.fail(optionError("host %q: use at most %d bytes of UTF-8", m.Host, maxTextLen))
		}
		o.meta = &m
	}
}

// WithLogger sets where the client logs what no method returns: renewals that
// fail, losses, clean-ups given up. Of each it logs the first ten in a second by
// themselves, and then how many more there were; hooks hear of each. Silent by
// default. Holder IDs are logged at debug level only.
func WithLogger(l *slog.Logger) Option { return func(o *clientOptions) { o.logger = l } }

// WithHooks adds hooks; see Hook.
func WithHooks(hooks ...Hook) Option {
	return func(o *clientOptions) { o.hooks = append(o.hooks, hooks...) }
}

func (o *clientOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// LockOption configures a lock. Options are checked at the first use of the
// handle and come back as errors that are ErrInvalid.
type LockOption func(*lockOptions)

type lockOptions struct {
	ttl       time.Duration
	noRenewal bool
	reentrant bool
	noTenure  bool
	fallback  Fallback
	reason    string
	err       error
}

// WithTTL sets the TTL of the lease (default 15 s; 100 ms to 24 h). The lease is
// renewed every TTL/3; a holder that dies frees the resource within the TTL. Use at
// least five times what a request takes to the store and back.
func WithTTL(d time.Duration) LockOption {
	return func(o *lockOptions) {
		if d < MinTTL || d > MaxTTL {
			o.fail(optionError("TTL %v: use %v to %v", d, MinTTL, MaxTTL))
		}
		o.ttl = d
	}
}

// WithoutRenewal lets the lease end at its TTL.
func WithoutRenewal() LockOption { return func(o *lockOptions) { o.noRenewal = true } }

// WithReentrancy lets a Lock under the lease's own Context return the lease
// again, with the same token and without a round trip. Each of them must be
// released; the last one gives the resource back. What re-enters is a context, not a
// goroutine: two goroutines that share it both enter, at the same time. Give one that
// must be kept out a context without the lease, or a sync.Mutex beside it.
func WithReentrancy() LockOption { return func(o *lockOptions) { o.reentrant = true } }

// WithFallback says what the lock does while the store is unavailable (default
// FailClosed), see Fallback and FallbackTimeout. Give all users of a resource the
// same: FailOpen and LocalOnly give up exclusion between processes for as long as
// the store is away, and for as long after as such a lease is still held. What is
// written under the lease should know: see Lease.Fallback. An Election has no
// fallback.
func WithFallback(p Fallback) LockOption {
	return func(o *lockOptions) {
		if p > LocalOnly {
			o.fail(optionError("fallback %d: use FailClosed, FailOpen or LocalOnly", p))
		}
		o.fallback = p
	}
}

// WithoutTenure puts every waiter into the store's queue itself, so that the
// order between processes is strictly first come, first served. By default the
// waiters of one process pass a lease on among themselves for a short time.
func WithoutTenure() LockOption { return func(o *lockOptions) { o.noTenure = true } }

// WithReason sets a text that operators see beside the holder (at most 256
// bytes). With tenure, the store shows the reason of the waiter that stood in
// its queue.
func WithReason(text string) LockOption {
	return func(o *lockOptions) {
		if len(text) > maxTextLen || !utf8.ValidString(text) {
			o.fail(optionError("reason %q: use at most %d bytes of UTF-8", text, maxTextLen))
		}
		o.reason = text
	}
}

func (o *lockOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// lockOptionsOf applies options to the defaults and checks the name.
func lockOptionsOf(name string, opts []LockOption) lockOptions {
	o := lockOptionsFrom(opts)
	if err := checkName(name); err != nil {
		o.err = err
	}
	return o
}

func lockOptionsFrom(opts []LockOption) lockOptions {
	o := lockOptions{ttl: DefaultTTL}
	for _, opt := range opts {
		if opt == nil {
			o.fail(optionError("a LockOption is nil"))
			continue
		}
		opt(&o)
	}
	return o
}

func checkName(name string) error {
	switch {
	case name == "":
		return optionError("the resource's name is empty: name what is locked, like %q", "stock:42")
	case len(name) > MaxNameLen:
		return optionError("the resource's name has %d bytes: use at most %d", len(name), MaxNameLen)
	case !utf8.ValidString(name):
		return optionError("the resource's name %q is not UTF-8", name)
	}
	return nil
}
