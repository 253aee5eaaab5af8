// Command etcdmember is one member of an etcd, as a process that tests start, stop and
// kill. It is a module of its own, so that the library's does not need the
// server; package etcdservers builds it. Its argument is a configuration as JSON. It
// prints "ready" when it serves, and runs until a signal ends it.
package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "etcdmember:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("got %d arguments, want a configuration", len(args))
	}
	var c struct {
		Name, Dir    string
		Client, Peer string // host:port
		Members      string // all, as name=URL
		Quota        int64  // of the database, in bytes; 0 is the default
		Fsync        bool   // before a change is answered
	}
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		return err
	}
	urls := func(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }
	conf := embed.NewConfig()
	conf.Name, conf.Dir, conf.InitialCluster, conf.QuotaBackendBytes = c.Name, c.Dir, c.Members, c.Quota
	conf.ListenClientUrls, conf.AdvertiseClientUrls = urls(c.Client), urls(c.Client)
	conf.ListenPeerUrls, conf.AdvertisePeerUrls = urls(c.Peer), urls(c.Peer)
	conf.TickMs, conf.ElectionMs = 50, 500
	conf.UnsafeNoFsync = !c.Fsync
	conf.LogLevel, conf.LogOutputs = "error", []string{"stderr"}
	e, err := embed.StartEtcd(conf)
	if err != nil {
		return err
	}
	<-e.Server.ReadyNotify()
	fmt.Println("ready")
	return <-e.Err()
}
