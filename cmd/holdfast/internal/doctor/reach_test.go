package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestReach(t *testing.T) {
	t.Parallel()
	stalls := redistest.WatchStalls(t)
	s := redistest.Start(t, redistest.WithPassword("s3cret"))

	r := examine(t, defaults(), "redis://"+s.Addr())
	require(t, r, "reach", diagnosis.Fail, "refused: NOAUTH")
	requireWorst(t, r, diagnosis.Denied)

	r = examine(t, defaults(), "redis://:wr0ng@"+s.Addr())
	require(t, r, "reach", diagnosis.Fail, "refused: WRONGPASS")
	requireWorst(t, r, diagnosis.Denied)

	r = examine(t, defaults(), s.URL())
	f := require(t, r, "reach", diagnosis.OK, "master; 20 pings: median .*, max ")
	if ms, ok := f.Values["rtt_max_ms"].(float64); !ok || ms <= 0 {
		t.Errorf("values %v", f.Values)
	}

	s.Pause()
	begin := time.Now()
	r = examine(t, defaults(), s.URL())
	require(t, r, "reach", diagnosis.Fail, "no answer: ")
	requireWorst(t, r, diagnosis.Unreachable)
	stalls.Within(t, begin, 2*reachLimit, "a server that hangs")
	s.Resume()

	s.Kill()
	r = examine(t, defaults(), s.URL())
	require(t, r, "reach", diagnosis.Fail, "no answer: .*refused")
	requireWorst(t, r, diagnosis.Unreachable)
	if len(r.Findings) != 1 {
		t.Errorf("more is judged than was seen:\n%s", lines(r))
	}
}

func TestBusy(t *testing.T) {
	s := start(t, "--lua-time-limit", "1")
	c := s.Client(func(o *redis.Options) { o.MaxRetries, o.ReadTimeout = -1, time.Minute })
	done := make(chan error, 1)
	go func() { done <- c.Eval(t.Context(), "while true do end", nil).Err() }()
	other := s.Client(func(o *redis.Options) { o.MaxRetries = -1 })
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := other.Ping(t.Context()).Err(); err != nil && strings.HasPrefix(err.Error(), "BUSY") {
			break
		}
		<-tick.C
	}
	r := examine(t, defaults(), s.URL())
	require(t, r, "reach", diagnosis.Fail, "busy with a script")
	requireWorst(t, r, diagnosis.Unreachable)
	if err := other.ScriptKill(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	<-done
	requireWorst(t, examine(t, defaults(), s.URL()), diagnosis.None)
}

func TestMode(t *testing.T) {
	single := start(t)
	clustered := start(t, "--cluster-enabled", "yes")
	replica := start(t, "--replicaof", "127.0.0.1 "+port(single))

	r := examine(t, defaults(), clustered.URL())
	require(t, r, "mode", diagnosis.Fail, "one server of a cluster")
	requireWorst(t, r, diagnosis.Misconfig)

	r = examine(t, defaults(), "redis+cluster://"+single.Addr())
	require(t, r, "cluster", diagnosis.Fail, "one Redis, not a cluster")
	requireWorst(t, r, diagnosis.Misconfig)

	r = examine(t, defaults(), replica.URL())
	require(t, r, "mode", diagnosis.Fail, "a replica of 127.0.0.1:"+port(single))
	require(t, r, "reach", diagnosis.OK, "replica; ")
	requireWorst(t, r, diagnosis.Misconfig)
}

func TestInfoIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	if err := s.Client().Do(t.Context(), "acl", "setuser", "ann", "on", ">pw", "+@all", "-info", "-config", "~*", "&*").Err(); err != nil {
		t.Fatal(err)
	}
	r := examine(t, defaults(), "redis://ann:pw@"+s.Addr())
	for _, check := range []string{"info", "config", "version", "eviction", "persistence"} {
		require(t, r, check, diagnosis.Unknown, "")
	}
	require(t, r, "rights", diagnosis.OK, "user ann")
	requireWorst(t, r, diagnosis.None)
}
