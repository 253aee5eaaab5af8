package doctorstores

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
	etcdengine "github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func etcdClient(t testing.TB, endpoints []string, change ...func(*clientv3.Config)) *clientv3.Client {
	t.Helper()
	conf := clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}
	for _, f := range change {
		f(&conf)
	}
	c, err := clientv3.New(conf)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func examineEtcd(t testing.TB, c *clientv3.Client) report {
	t.Helper()
	return Etcd(t.Context(), subject(func() engine.Engine { return etcdengine.New(c) }), c, nil)
}

func TestEtcdAsItShouldBe(t *testing.T) {
	t.Parallel()
	members := etcdservers.StartCluster(t, 3, etcdservers.Config{Fsync: true})
	r := examineEtcd(t, etcdClient(t, members.Addrs()))
	r.requireSound(t, "reach", "quorum", "version", "alarms", "space", "durability", "clock", "compaction", "trial", "ttl")
	r.require(t, "quorum", diagnosis.OK, "^3 of 3 members answer, 2 are needed; learners: 0")

	one := examineEtcd(t, etcdClient(t, members.Addrs()[:1]))
	one.require(t, "quorum", diagnosis.Warn, "^the URL names 1 of 3 members")

	members[2].Kill()
	r = examineEtcd(t, etcdClient(t, members.Addrs()))
	if f := r.require(t, "quorum", diagnosis.Warn, "the member does not answer"); f.Node != members[2].Addr() {
		t.Errorf("it is %s that does not answer", f.Node)
	}
	r.require(t, "quorum", diagnosis.Warn, "^2 of 3 members answer: no other may fail")
	r.requireWorst(t, diagnosis.None)

	members[1].Kill()
	c := etcdClient(t, members.Addrs())
	redistest.Await(t, 20*time.Second, "no leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := c.Status(ctx, members[0].Addr())
		return err == nil && s.Leader == 0
	})
	r = examineEtcd(t, c)
	r.require(t, "reach", diagnosis.Fail, "no answer")
	r.require(t, "quorum", diagnosis.Fail, "^no leader: 1 of 3 members answer, 2 are needed")
	r.requireWorst(t, diagnosis.Unreachable)
}

func TestEtcdWithoutFsync(t *testing.T) {
	t.Parallel()
	c := etcdClient(t, etcdservers.StartCluster(t, 1, etcdservers.Config{}).Addrs())
	r := examineEtcd(t, c)
	r.require(t, "durability", diagnosis.Warn, "does not write its log to disk before it answers")
	r.require(t, "quorum", diagnosis.OK, "^one member: while it is away")
	r.requireWorst(t, diagnosis.None)

	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range manyRevisions/16 + 1 {
				if _, err := c.Put(t.Context(), "filler", "x"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	examineEtcd(t, c).require(t, "compaction", diagnosis.Warn, "revisions, and none was ever removed")
	_, err := c.Compact(t.Context(), manyRevisions)
	must(t, err)
	examineEtcd(t, c).require(t, "compaction", diagnosis.OK, "old revisions are removed")

	_, err = c.MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"})
	must(t, err)
	examineEtcd(t, c).require(t, "quorum", diagnosis.OK, "one member")
	_, err = pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_CORRUPT})
	must(t, err)
	r = examineEtcd(t, c)
	r.require(t, "alarms", diagnosis.Fail, "^CORRUPT")
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestEtcdFull(t *testing.T) {
	t.Parallel()
	const quota = 16 << 20
	c := etcdClient(t, etcdservers.StartCluster(t, 1, etcdservers.Config{Quota: quota}).Addrs())
	const portion = 256 << 10 // the database grows by some times as much
	fill := func() error {
		_, err := c.Put(t.Context(), "filler", strings.Repeat("x", portion))
		return err
	}
	size := func() int64 {
		s, err := c.Status(t.Context(), c.Endpoints()[0])
		must(t, err)
		return s.DbSize
	}
	for n := int64(1); float64(size()) < nearlyFull*quota; n++ {
		must(t, fill())
		redistest.Await(t, 10*time.Second, "the database grows", func() bool { return size() >= n*portion }) // it does at intervals
	}
	r := examineEtcd(t, c)
	r.require(t, "space", diagnosis.Warn, "% of its quota: when that is reached")
	r.requireWorst(t, diagnosis.None)
	for {
		if err := fill(); errors.Is(err, rpctypes.ErrNoSpace) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	r = examineEtcd(t, c)
	r.require(t, "alarms", diagnosis.Fail, "^NOSPACE: the database has reached its quota")
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestEtcdMembersThatDoNotBelongTogether(t *testing.T) {
	t.Parallel()
	a, b := etcdservers.StartCluster(t, 1, etcdservers.Config{}), etcdservers.StartCluster(t, 1, etcdservers.Config{})
	r := examineEtcd(t, etcdClient(t, append(a.Addrs(), b.Addrs()...)))
	r.require(t, "quorum", diagnosis.Fail, "are members of different etcds: both grant")
	r.requireWorst(t, diagnosis.Misconfig)

	c := etcdClient(t, a.Addrs())
	_, err := c.MemberAdd(t.Context(), []string{"http://127.0.0.1:1"})
	must(t, err)
	r = examineEtcd(t, c)
	r.require(t, "quorum", diagnosis.Fail, "1 of 2 members answer, 2 are needed")
	r.require(t, "quorum", diagnosis.Warn, "^2 members tolerate no more failures than 1 would")
	r.require(t, "quorum", diagnosis.Warn, "a member was added and has not been started")
}

func TestEtcdRights(t *testing.T) {
	t.Parallel()
	addrs := etcdservers.StartCluster(t, 1, etcdservers.Config{Fsync: true}).Addrs()
	root := etcdClient(t, addrs)
	done := func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
	ctx := t.Context()
	for _, user := range []string{"root", "allowed", "stranger"} {
		done(root.UserAdd(ctx, user, "secret"))
	}
	done(root.UserGrantRole(ctx, "root", "root"))
	done(root.RoleAdd(ctx, "locks"))
	done(root.RoleGrantPermission(ctx, "locks", "holdfast/holdfast/", clientv3.GetPrefixRangeEnd("holdfast/holdfast/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	done(root.UserGrantRole(ctx, "allowed", "locks"))
	done(root.AuthEnable(ctx))
	as := func(user string) *clientv3.Client {
		return etcdClient(t, addrs, func(c *clientv3.Config) { c.Username, c.Password = user, "secret" })
	}
	examineEtcd(t, as("allowed")).requireSound(t, "reach", "trial")
	r := examineEtcd(t, as("stranger"))
	r.require(t, "trial", diagnosis.Fail, "etcdctl role grant-permission")
	r.requireWorst(t, diagnosis.Denied)
	r = examineEtcd(t, root)
	r.require(t, "reach", diagnosis.Fail, "^refused: .*user name is empty")
	r.requireWorst(t, diagnosis.Denied)
}

func TestEtcdOutOfReach(t *testing.T) {
	t.Parallel()
	stalls := redistest.WatchStalls(t)
	begin := time.Now()
	r := examineEtcd(t, etcdClient(t, []string{"127.0.0.1:1"}))
	r.require(t, "reach", diagnosis.Fail, "no answer")
	r.requireWorst(t, diagnosis.Unreachable)
	stalls.Within(t, begin, 3*reachLimit, "an etcd that is away")
}

func TestEtcdOfManyVersions(t *testing.T) {
	e := &etcd{}
	for _, v := range []string{"3.5.9", "3.6.1"} {
		e.members = append(e.members, &etcdMember{status: &clientv3.StatusResponse{Version: v}})
	}
	e.versions()
	e.members[1].status.RaftAppliedIndex = 2 * manyEntries
	e.members[0].Place = "a:1"
	e.lag(e.members)
	r := report(e.findings)
	r.require(t, "version", diagnosis.Warn, "the members differ: 3.5.9, 3.6.1")
	if f := r.require(t, "quorum", diagnosis.Warn, "10000 entries behind"); f.Node != "a:1" {
		t.Errorf("%s is behind", f.Node)
	}
	e = &etcd{members: []*etcdMember{{status: &clientv3.StatusResponse{Version: "3.3.27"}}}}
	e.versions()
	report(e.findings).require(t, "version", diagnosis.Fail, "etcd 3.3.27 is too old")
	e = &etcd{members: []*etcdMember{{status: &clientv3.StatusResponse{DbSize: 1 << 30, DbSizeInUse: 1 << 20}, clock: diagnosis.ClockReading{Known: true, Ahead: time.Hour},
		before: map[string]float64{}, metrics: map[string]float64{"etcd_server_proposals_applied_total": 5, "etcd_disk_wal_fsync_duration_seconds_count": 10, "etcd_disk_wal_fsync_duration_seconds_sum": 2}}}}
	e.space()
	e.fsync()
	e.clocks()
	r = report(e.findings)
	r.require(t, "space", diagnosis.Warn, "of 1.0 GiB only 1.0 MiB are in use")
	r.require(t, "durability", diagnosis.Warn, "takes 200ms on average")
	r.require(t, "clock", diagnosis.Warn, "1h0m0s ahead of this machine")
	learner := &etcdMember{Place: "c:3", named: true, status: &clientv3.StatusResponse{Header: &pb.ResponseHeader{MemberId: 2}, Leader: 1, IsLearner: true}}
	voter := &etcdMember{Place: "b:2", named: true, status: &clientv3.StatusResponse{Header: &pb.ResponseHeader{MemberId: 1}, Leader: 1}}
	e = &etcd{members: []*etcdMember{voter, learner}, listed: &clientv3.MemberListResponse{Members: []*pb.Member{{ID: 1, Name: "one"}, {ID: 2, Name: "two", IsLearner: true}}}}
	e.quorum()
	if f := report(e.findings).require(t, "quorum", diagnosis.Warn, "a learner, which serves no locks"); f.Node != "c:3" {
		t.Errorf("%s is the learner", f.Node)
	}
	e = &etcd{members: []*etcdMember{{status: &clientv3.StatusResponse{}}}}
	e.fsync()
	report(e.findings).require(t, "durability", diagnosis.Unknown, "metrics are not reachable")
}
