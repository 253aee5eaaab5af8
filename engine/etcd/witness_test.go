package etcd_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/trytest"
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
		t.Run(name, func(t *testing.T) { trytest.WitnessOutlives(t, s, func() { fail(t) }) })
	}
}

func TestWitnessOfAnotherCluster(t *testing.T) {
	t.Parallel()
	other := etcdservers.Start(t, etcdservers.Config{})
	trytest.WitnessOfAnother(t, etcd.NewStore(single(t)).(cas.WitnessStore), etcd.NewStore(connect(t, []string{other.Addr()})).(cas.WitnessStore))
}
