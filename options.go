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
	// DefaultTTL is the TTL of a lease. It is renewed every TTL/3.
	DefaultTTL = 15 * time.Second
	// MinTTL and MaxTTL bound WithTTL.
	MinTTL = 100 * time.Millisecond
	MaxTTL = 24 * time.Hour
	// MaxNameLen is the maximum length of a resource name, in bytes.
	MaxNameLen = 512

	maxPrefixLen = 128
	maxTextLen   = 256
)

// An Option configures a Client.
type Option func(*clientOptions)

type clientOptions struct {
	prefix  string
	name    string
	meta    *Meta
	logger  *slog.Logger
	hooks   []Hook
	history int // 0: off
	err     error
}

// WithPrefix sets the prefix of every key in the store (default "holdfast"), so
// that applications can share a store. Resources with different prefixes are
// different. A prefix is 1 to 128 bytes of UTF-8 without braces.
func WithPrefix(prefix string) Option {
	return func(o *clientOptions) {
		if prefix == "" || len(prefix) > maxPrefixLen || !utf8.ValidString(prefix) || strings.ContainsAny(prefix, "{}") {
			o.fail(optionError("prefix %q: use 1 to %d bytes of UTF-8 without braces", prefix, maxPrefixLen))
		}
		o.prefix = prefix
	}
}

// WithName sets the name of the program or service that operators see (default:
// the name of the executable; at most 256 bytes of UTF-8).
func WithName(name string) Option {
	return func(o *clientOptions) {
		if len(name) > maxTextLen || !utf8.ValidString(name) {
			o.fail(optionError("name %q: use at most %d bytes of UTF-8", name, maxTextLen))
		}
		o.name = name
	}
}

// Meta describes to operators where a client runs.
type Meta struct {
	Host string // default os.Hostname
	PID  int    // default os.Getpid
}

// WithMeta replaces the host and the PID that operators see. Host is at most
// 256 bytes of UTF-8.
func WithMeta(m Meta) Option {
	return func(o *clientOptions) {
		if len(m.Host) > maxTextLen || !utf8.ValidString(m.Host) {
			o.fail(optionError("host %q: use at most %d bytes of UTF-8", m.Host, maxTextLen))
		}
		o.meta = &m
	}
}

// WithLogger sets the logger for events that no method returns: at Error a lost
// lease; at Warn an overdue renewal, a release that is no longer retried, a wait
// behind 100 or more others, and more; at Info the beginning and the end of a
// term of an election. Of each of these kinds it logs the first ten per second,
// of waits the first ten per minute, one by one, and then the number of the
// others; hooks are called for each. At Debug it logs each grant, renewal and
// release, with the holder ID, if the logger has that level when New is called.
// The default logs nothing.
func WithLogger(l *slog.Logger) Option { return func(o *clientOptions) { o.logger = l } }

// WithHooks adds hooks; see [Hook].
func WithHooks(hooks ...Hook) Option {
	return func(o *clientOptions) { o.hooks = append(o.hooks, hooks...) }
}

func (o *clientOptions) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// A LockOption configures a lock. Options are checked at the first use of the
// handle, which returns ErrInvalid if one is invalid.
type LockOption func(*lockOptions)

type lockOptions struct {
	ttl       time.Duration
	noRenewal bool
	reentrant bool
	noTenure  bool
	fallback  Fallback
	linger    time.Duration
	reason    string
	err       error
}

// WithTTL sets the TTL of the lease (default 15 s; 100 ms to 24 h). The lease
// is renewed every TTL/3, and the resource of a dead holder becomes free within
// the TTL. Use at least six times the longest round trip to the store.
func WithTTL(d time.Duration) LockOption {
	return func(o *lockOptions) {
		if d < MinTTL || d > MaxTTL {
			o.fail(optionError("TTL %v: use %v to %v", d, MinTTL, MaxTTL))
		}
		o.ttl = d
	}
}

// WithoutRenewal disables renewal: the lease ends at its TTL.
func WithoutRenewal() LockOption { return func(o *lockOptions) { o.noRenewal = true } }

// WithReentrancy makes a Lock under the lease's own Context return another
// lease on the same grant, with the same token and without a round trip. Each
// of these leases must be released; the last Release releases the resource.
//
// Re-entry follows the context and not the goroutine: two goroutines that use
// the same context both enter, at the same time. To exclude one of them, give
// it a context without the lease, or use a sync.Mutex as well.
func WithReentrancy() LockOption { return func(o *lockOptions) { o.reentrant = true } }

// WithFallback sets what the lock does while the store is unavailable (default
// FailClosed); see [Fallback] and [FallbackTimeout]. All users of a resource
// should use the same fallback: FailOpen and LocalOnly do not exclude other
// processes while the store is unavailable, and after that for as long as such
// a lease is held. [Lease.Fallback] reports how a lease was granted. An
// Election, a Latch and a Job have no fallback.
func WithFallback(p Fallback) LockOption {
	return func(o *lockOptions) {
		if p > LocalOnly {
			o.fail(optionError("fallback %d: use FailClosed, FailOpen or LocalOnly", p))
		}
		o.fallback = p
	}
}

// WithoutTenure puts every waiter into the store's queue, so that the order
// between processes is strictly first come, first served. By default the
// callers of one process hand off a lease to each other for a short time, and
// readers of one process share a lease.
func WithoutTenure() LockOption { return func(o *lockOptions) { o.noTenure = true } }

// WithLinger keeps the lease of a Mutex for up to max after its last Release in
// this process (default 0; at most 1 s and a third of the TTL), so that the
// next Lock of the process makes no call to the store. It is for one process
// that often acquires a resource that other processes rarely use.
//
// When another process requests the resource, the store recalls the lease by a
// wake-up and the client releases it at once. All handles of a client with the
// same name and TTL share the lease, even without this option. After a recall
// the client does not keep leases of the resource for 30 s, and longer after
// each further recall, up to 10 minutes. A TryLock of another process recalls
// the lease as well and waits for it for up to 50 ms. If the recall is lost,
// the resource becomes free within max; if the process dies, within the TTL.
//
// The lease is not kept if it was not granted at once, if a renewal is overdue,
// if the resource is used with WithFallback, WithoutRenewal or WithoutTenure,
// after Close, if the client keeps 1,024 other leases, or if the engine does
// not recall leases (engine.Recaller), such as a quorum or the engines of
// tables and documents. An RWMutex accepts the option and does not use it yet;
// for any other lock it is invalid.
func WithLinger(max time.Duration) LockOption {
	return func(o *lockOptions) {
		if max < 0 || max > maxLinger {
			o.fail(optionError("linger %v: use 0 to %v", max, maxLinger))
		}
		o.linger = max
	}
}

// WithReason sets a text that operators see beside the holder (at most 256
// bytes of UTF-8). With tenure, the store shows the reason of the caller whose
// request was granted.
func WithReason(text string) LockOption {
	return func(o *lockOptions) {
		if err := checkReason(text); err != nil {
			o.fail(err)
		}
		o.reason = text
	}
}

func checkReason(text string) error {
	if len(text) > maxTextLen || !utf8.ValidString(text) {
		return optionError("reason %q: use at most %d bytes of UTF-8", text, maxTextLen)
	}
	return nil
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
	if o.linger > o.ttl/3 {
		o.fail(optionError("linger %v: use at most a third of the TTL, which is %v", o.linger, o.ttl))
	}
	return o
}

func checkName(name string) error {
	switch {
	case name == "":
		return optionError("the resource's name is empty: use a name such as %q", "stock:42")
	case len(name) > MaxNameLen:
		return optionError("the resource's name has %d bytes: use at most %d", len(name), MaxNameLen)
	case !utf8.ValidString(name):
		return optionError("the resource's name %q is not UTF-8", name)
	}
	return nil
}
