package etcd

import (
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// An Engine keeps queues of leases in etcd. It need not be closed, and shares its locks with every
// engine on the same etcd. Its methods are those of engine.Engine.
type Engine struct{ *cas.Engine }

// New returns an engine on a client, which the caller closes after the Holdfast clients. It
// makes no call.
func New(c *clientv3.Client, opts ...Option) *Engine {
	o := options{namespace: "holdfast/", timeout: cas.DefaultTimeout}
	for _, opt := range opts {
		opt(&o)
	}
	return &Engine{cas.New(newKeyspace(c, o), o.timeout)}
}

// An Option configures an Engine.
type Option func(*options)

type options struct {
	namespace string
	timeout   time.Duration
}

// WithNamespace sets what all keys in etcd begin with (default "holdfast/"). Package
// namespace of clientv3 has no effect on an Engine. All engines of an application must use the
// same.
func WithNamespace(text string) Option {
	return func(o *options) { o.namespace = text }
}

// WithTimeout bounds each call of etcd whose ctx does not end (default 5 s). A call
// that is not answered after a tenth of it is made again, on another member, and once
// more after three tenths.
func WithTimeout(d time.Duration) Option {
	return func(o *options) { o.timeout = d }
}

// Check reports whether the engine can be used at all; holdfast.New calls it.
func (s *keyspace) Check() error {
	if s.client == nil {
		return errors.New("etcd: the client is nil")
	}
	if s.timeout <= 0 {
		return errors.New("etcd: the timeout is not positive")
	}
	return nil
}
