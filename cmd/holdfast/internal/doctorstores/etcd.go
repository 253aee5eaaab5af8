package doctorstores

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// etcd is an etcd and its answers.
type etcd struct {
	examination
	client  *clientv3.Client
	secure  *tls.Config
	members []*etcdMember
	listed  *clientv3.MemberListResponse // nil: no member returns the list
}

// Etcd examines the members of an etcd. secure is the configuration of TLS that the client has, or nil.
func Etcd(ctx context.Context, s Subject, c *clientv3.Client, secure *tls.Config) []diagnosis.Finding {
	e := &etcd{examination: examination{Subject: s}, client: c, secure: secure}
	asks, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var asked sync.WaitGroup
	asked.Go(func() { e.askMembers(asks) })
	reached := e.reach(ctx, "etcd, read from a majority", etcdRefused, e.ping)
	asked.Wait()
	e.quorum()
	e.versions()
	e.alarms()
	e.space()
	e.clocks()
	if !reached {
		return e.findings
	}
	e.compaction(asks)
	e.try(ctx, "check the network: watches are streams of HTTP/2, which some proxies end")
	e.askAgain(ctx)
	e.fsync()
	e.ttl()
	return e.findings
}

// askAgain asks the members for their counters after the trial.
func (e *etcd) askAgain(ctx context.Context) {
	var asked sync.WaitGroup
	for _, m := range e.answered() {
		asked.Go(func() {
			m.before = m.metrics
			m.metrics = nil
			m.askMetrics(ctx, e.secure)
		})
	}
	asked.Wait()
}

// probe is a key below the default namespace of the engine.
const probe = "holdfast/doctor"

// ping reads from a majority. That the user may not read this key is an answer too.
func (e *etcd) ping(ctx context.Context) error {
	_, err := e.client.Get(ctx, probe)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return nil
	}
	return err
}

// etcdRefused reports whether etcd refuses the user.
func etcdRefused(err error) bool {
	for _, refusal := range []error{rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthNotEnabled} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// askMembers asks those of the URL, and those that they name.
func (e *etcd) askMembers(ctx context.Context) {
	ask := func(endpoints []string) {
		var asked sync.WaitGroup
		for _, endpoint := range endpoints {
			m := newEtcdMember(endpoint)
			e.members = append(e.members, m)
			asked.Go(func() { m.ask(ctx, e.client, e.secure) })
		}
		asked.Wait()
	}
	ask(e.client.Endpoints())
	for _, m := range e.members {
		m.named = true
	}
	limited, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	listed, err := e.client.MemberList(limited, clientv3.WithSerializable())
	if err != nil {
		return
	}
	e.listed = listed
	var others []string
	for _, m := range listed.Members {
		if len(m.ClientURLs) > 0 && e.memberOf(m.ID) == nil && !e.asked(m.ClientURLs) {
			others = append(others, m.ClientURLs[0])
		}
	}
	ask(others)
}

// memberOf returns the member that answered with an ID, or nil.
func (e *etcd) memberOf(id uint64) *etcdMember {
	for _, m := range e.members {
		if m.status != nil && m.status.Header.MemberId == id {
			return m
		}
	}
	return nil
}

// asked reports whether a member of the URL has one of the addresses.
func (e *etcd) asked(urls []string) bool {
	for _, m := range e.members {
		for _, url := range urls {
			if hostPort(url) == string(m.Place) {
				return true
			}
		}
	}
	return false
}

// answered returns the members that answered.
func (e *etcd) answered() []*etcdMember {
	var all []*etcdMember
	for _, m := range e.members {
		if m.status != nil {
			all = append(all, m)
		}
	}
	return all
}

// hostPort returns an endpoint without its scheme.
func hostPort(endpoint string) string {
	if _, rest, ok := strings.Cut(endpoint, "://"); ok {
		return rest
	}
	return endpoint
}
