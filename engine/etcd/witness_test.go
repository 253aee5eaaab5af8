package etcd_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

// A witness lasts for its time although the leader is killed, or hangs for longer than that.
func TestWitnessOutlivesLeaders(t *testing.T) {
	t.Parallel()
	all := etcdservers.StartCluster(t, 3, etcdservers.Config{})
	s := etcd.NewStore(connect(t, all.Addrs())).(cas.WitnessStore)
	for name, fail := range map[string]func(t *testing.T){
		"Killed": func(t *testing.T) {
			leader := all.Leader(t)
			leader.Kill()
			<-time.After(time.Second)
			leader.Restart()
		},
		"Hung": func(t *testing.T) {
			leader := all.Leader(t)
			leader.Pause()
			<-time.After(6 * time.Second)
			leader.Resume()
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.WitnessOutlives(t, s, func() { fail(t) }) })
	}
}

func TestWitnessOfAnotherCluster(t *testing.T) {
	t.Parallel()
	other := etcdservers.Start(t, etcdservers.Config{})
	storetest.WitnessOfAnother(t, etcd.NewStore(single(t)).(cas.WitnessStore), etcd.NewStore(connect(t, []string{other.Addr()})).(cas.WitnessStore))
}

// A copy of the key of a witness, which has no lease of etcd and never vanishes, is no witness.
func TestCopyOfAWitness(t *testing.T) {
	t.Parallel()
	c, prefix := single(t), t.Name()
	s := etcd.NewStore(c).(cas.WitnessStore)
	name, _, err := s.Witness(t.Context(), prefix, time.Minute)
	must(t, err)
	want := func(want cas.WitnessState) {
		t.Helper()
		states, err := s.Witnesses(t.Context(), prefix, []string{name})
		if err != nil || states[0] != want {
			t.Errorf("got %v, %v, want %v", states, err, want)
		}
	}
	want(cas.WitnessStands)
	all, err := c.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	must(t, err)
	for _, kv := range all.Kvs {
		if strings.HasSuffix(string(kv.Key), name) {
			_, err := c.Put(t.Context(), string(kv.Key), "")
			must(t, err)
		}
	}
	want(cas.WitnessForeign)
}

// Documents that were copied without the keys of their witnesses, to a cluster that has the same ID, prove nothing.
func TestCopyWithoutWitnesses(t *testing.T) {
	t.Parallel()
	c, prefix := single(t), t.Name()
	s := etcd.NewStore(c).(cas.WitnessStore)
	name, _, err := s.Witness(t.Context(), prefix, time.Minute)
	must(t, err)
	all, err := c.Get(t.Context(), "", clientv3.WithPrefix())
	must(t, err)
	copied := 0
	for _, kv := range all.Kvs {
		if !strings.Contains(string(kv.Key), prefix) {
			continue
		}
		_, err := c.Delete(t.Context(), string(kv.Key))
		must(t, err)
		if kv.Lease != 0 && strings.HasSuffix(string(kv.Key), name) {
			continue
		}
		_, err = c.Put(t.Context(), string(kv.Key), string(kv.Value))
		must(t, err)
		copied++
	}
	if copied != 1 {
		t.Fatalf("%d keys were copied, want the root", copied)
	}
	want := func(name string, want cas.WitnessState) {
		t.Helper()
		states, err := s.Witnesses(t.Context(), prefix, []string{name})
		if err != nil || states[0] != want {
			t.Errorf("got %v, %v, want %v", states, err, want)
		}
	}
	want(name, cas.WitnessForeign)
	again, _, err := s.Witness(t.Context(), prefix, time.Minute)
	must(t, err)
	want(again, cas.WitnessStands)
	want(name, cas.WitnessForeign)
}

// Of many processes that make the first witness of a prefix at once, one makes the root; the others leave no lease.
func TestOneRoot(t *testing.T) {
	t.Parallel()
	all := etcdservers.Start(t, etcdservers.Config{})
	c, prefix := connect(t, []string{all.Addr()}), t.Name()
	s := etcd.NewStore(c, etcd.WithTimeout(time.Minute)).(cas.WitnessStore) // a try that is repeated would leave a lease
	var work sync.WaitGroup
	for range 16 {
		work.Go(func() {
			if _, _, err := s.Witness(t.Context(), prefix, time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	left, err := c.Leases(t.Context())
	must(t, err)
	if len(left.Leases) != 17 {
		t.Errorf("%d leases for 16 witnesses and one root", len(left.Leases))
	}
}
