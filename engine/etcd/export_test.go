package etcd

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// NewStore returns the store under an engine.
func NewStore(c *clientv3.Client, opts ...Option) cas.DocumentStore {
	o := options{namespace: "holdfast/", timeout: cas.DefaultTimeout}
	for _, opt := range opts {
		opt(&o)
	}
	return newKeyspace(c, o)
}
