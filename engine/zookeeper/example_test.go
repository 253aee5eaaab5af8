package zookeeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/zookeeper"
)

// logger passes what the connection reports to slog.
type logger struct{ *slog.Logger }

func (l logger) Printf(format string, args ...any) {
	l.Warn("zookeeper: " + fmt.Sprintf(format, args...))
}

// It needs a ZooKeeper, so it is compiled and not run.
func ExampleNew() {
	ctx := context.Background()
	const session = 6 * time.Second
	conn, _, err := zk.Connect([]string{"zk1:2181", "zk2:2181", "zk3:2181"}, session,
		zk.WithDialer(zookeeper.Dialer(session)), zk.WithLogger(logger{slog.Default()}), zk.WithLogInfo(false))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	client, err := holdfast.New(zookeeper.New(conn))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close() // before conn

	lease, err := client.Mutex("stock:42").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("held with fencing token", lease.Token())
}

// Credentials belong to the connection; the ACL admits them alone.
func ExampleWithACL() {
	conn, _, err := zk.Connect([]string{"zk1:2181"}, 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	if err := conn.AddAuth("digest", []byte("app:secret")); err != nil {
		fmt.Println(err)
		return
	}
	engine := zookeeper.New(conn, zookeeper.WithRoot("/app/locks"), zookeeper.WithACL(zk.AuthACL(zk.PermAll)...))
	if _, err := engine.Now(context.Background()); err != nil {
		fmt.Println(err)
	}
}
