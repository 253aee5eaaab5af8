package etcd

import (
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// NewStore returns the store under an engine.
func NewStore(c *clientv3.Client) cas.DocumentStore {
	return newKeyspace(c, options{namespace: "holdfast/", timeout: cas.DefaultTimeout})
}
