package etcd_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
)

// Whoever has no right is told so at once, with what to do.
func TestAuth(t *testing.T) {
	t.Parallel()
	addrs := []string{etcdservers.Start(t, etcdservers.Config{}).Addr()}
	root := connect(t, addrs)
	ctx := within(t, waitTimeout)
	done := func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
	as := func(user string) *clientv3.Client {
		return connect(t, addrs, func(c *clientv3.Config) { c.Username, c.Password = user, "secret" })
	}
	for _, user := range []string{"root", "allowed", "stranger"} {
		done(root.UserAdd(ctx, user, "secret"))
	}
	done(root.UserGrantRole(ctx, "root", "root"))
	done(root.RoleAdd(ctx, "locks"))
	below := "holdfast/" + t.Name() + "/"
	done(root.RoleGrantPermission(ctx, "locks", below, clientv3.GetPrefixRangeEnd(below), clientv3.PermissionType(clientv3.PermReadWrite)))
	done(root.UserGrantRole(ctx, "allowed", "locks"))
	done(root.AuthEnable(ctx))

	lease, err := newClient(t, as("allowed")).Mutex("stock:42").Lock(ctx)
	must(t, err)
	must(t, lease.Release(ctx))

	for who, c := range map[string]*clientv3.Client{"role grant-permission": as("stranger"), "Username and Password": root} {
		e := etcd.New(c)
		_, err := e.Acquire(ctx, request(t, "b.1", time.Second))
		wantError(t, "Acquire", err, who, engine.ErrDenied)
		_, err = e.Snapshot(ctx, resource(t))
		wantError(t, "Snapshot", err, who, engine.ErrDenied)
		_, err = e.Listen(ctx, t.Name(), "b", func(engine.Wakeup) {})
		wantError(t, "Listen", err, who, engine.ErrDenied)
		for _, err := range e.List(ctx, t.Name(), "*") {
			wantError(t, "List", err, who, engine.ErrDenied)
		}
		client, err := holdfast.New(e, holdfast.WithPrefix(t.Name()))
		must(t, err)
		if _, err := client.Mutex("stock:42").Lock(ctx); !errors.Is(err, engine.ErrDenied) {
			t.Errorf("Lock: %v", err)
		}
		must(t, client.Close())
	}
}

// A right that is missing for one key denies the changes and reads of its document, and the others of the call are made without it.
func TestRightOfOneKey(t *testing.T) {
	t.Parallel()
	addrs := []string{etcdservers.Start(t, etcdservers.Config{}).Addr()}
	root := connect(t, addrs)
	ctx := within(t, waitTimeout)
	done := func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
	below, end := "holdfast/", clientv3.GetPrefixRangeEnd("holdfast/")
	for _, user := range []string{"root", "allowed"} {
		done(root.UserAdd(ctx, user, "secret"))
	}
	done(root.UserGrantRole(ctx, "root", "root"))
	done(root.RoleAdd(ctx, "locks"))
	denied := request(t, "a.1", time.Minute)
	denied.Resource.Name = "denied"
	key := "holdfast/" + denied.Resource.Prefix + "/r/" + denied.Resource.Name
	done(root.RoleGrantPermission(ctx, "locks", below, key, clientv3.PermissionType(clientv3.PermReadWrite)))
	done(root.RoleGrantPermission(ctx, "locks", key+"\x00", end, clientv3.PermissionType(clientv3.PermReadWrite)))
	done(root.UserGrantRole(ctx, "allowed", "locks"))
	done(root.AuthEnable(ctx))

	e := etcd.New(connect(t, addrs, func(c *clientv3.Config) { c.Username, c.Password = "allowed", "secret" }))
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			r := request(t, "a.1", time.Minute)
			if r.Resource.Name = fmt.Sprint(i); i == 20 {
				r = denied
			}
			a, err := e.Acquire(ctx, r)
			if i == 20 {
				wantError(t, "Acquire", err, "role grant-permission", engine.ErrDenied)
			} else if err != nil || a.Status != engine.Granted {
				t.Errorf("resource %d: %v, %v", i, a.Status, err)
			}
		})
	}
	all.Wait()
}

// A full database fails changes with its cause, and works again once an operator has made room.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	server := etcdservers.Start(t, etcdservers.Config{Quota: 4 << 20})
	c := connect(t, []string{server.Addr()})
	ctx := within(t, waitTimeout)
	e := etcd.New(c)
	held := hold(t, e, request(t, "a.1", 20*time.Second))
	var last *clientv3.PutResponse
	for {
		put, err := c.Put(ctx, "filler", strings.Repeat("x", 1<<19))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		must(t, err)
		last = put
	}
	other := request(t, "b.1", time.Second)
	other.Resource.Name = "another"
	_, err := e.Acquire(ctx, other)
	wantError(t, "Acquire", err, "alarm disarm", engine.ErrUnavailable, rpctypes.ErrNoSpace)
	_, err = c.Compact(ctx, last.Header.Revision)
	must(t, err)
	_, err = c.Defragment(ctx, server.Addr())
	must(t, err)
	_, err = c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	must(t, err)
	if err := renew(t, e, held, time.Second); err != nil {
		t.Errorf("renewing afterwards: %v", err)
	}
	hold(t, e, other)
}

func TestCheck(t *testing.T) {
	if _, err := holdfast.New(etcd.New(nil)); err == nil {
		t.Error("an engine without a client is accepted")
	}
	if _, err := holdfast.New(etcd.New(single(t), etcd.WithTimeout(-1))); err == nil {
		t.Error("a negative timeout is accepted")
	}
}
