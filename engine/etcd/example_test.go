package etcd_test

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/etcd"
)

// It needs an etcd, so it is compiled and not run.
func ExampleNew() {
	ctx := context.Background()
	ec, err := clientv3.New(clientv3.Config{
		Endpoints:            []string{"localhost:2379"},
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ec.Close()
	client, err := holdfast.New(etcd.New(ec))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close() // before ec

	lease, err := client.Mutex("stock:42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("held with fencing token", lease.Token())
}
