package store

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestSplitKeepsTheHostsOfOneStoreTogether(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                 nil,
		"redis://a":                        {"redis://a"},
		"redis://a,redis://b":              {"redis://a", "redis://b"},
		"redis://a, rediss://b":            {"redis://a", "rediss://b"},
		"redis+cluster://a:1,b:2":          {"redis+cluster://a:1,b:2"},
		"redis+sentinel://a,b/m,redis://c": {"redis+sentinel://a,b/m", "redis://c"},
	} {
		if got := Split(text); !slices.Equal(got, want) {
			t.Errorf("Split(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestOpenSingle(t *testing.T) {
	n := node(t, "redis://ann:s3cret@example.test:7000/2")
	o := n.Client.(*redis.Client).Options()
	if o.Addr != "example.test:7000" || o.DB != 2 || o.Username != "ann" || o.Password != "s3cret" || o.TLSConfig != nil {
		t.Errorf("options %+v", o)
	}
	if o.DialTimeout != dialTimeout {
		t.Errorf("dial timeout %v", o.DialTimeout)
	}
	if got := n.String(); got != "example.test:7000, database 2" {
		t.Error(got)
	}
	requireServer(t, n, 2)
	if o := node(t, "rediss://example.test").Client.(*redis.Client).Options(); o.TLSConfig == nil || o.Addr != "example.test:6379" {
		t.Errorf("options %+v", o)
	}
}

func TestOpenSentinel(t *testing.T) {
	n := node(t, "redis+sentinel://ann:s3cret@a:1,b:2/main/3?sentinel_username=guard&sentinel_password=other")
	o := n.Client.(*redis.Client).Options()
	if o.DB != 3 || o.Username != "ann" || o.Password != "s3cret" {
		t.Errorf("options %+v", o)
	}
	if got := n.String(); got != `the master "main" that the Sentinels at a:1, b:2 name, database 3` {
		t.Error(got)
	}
	requireServer(t, n, 3)
	c := n.SentinelAt("c:3")
	defer c.Close()
	if o := c.Options(); o.Addr != "c:3" || o.Username != "guard" || o.Password != "other" || o.DB != 0 {
		t.Errorf("options of a Sentinel %+v", o)
	}
}

func TestOpenCluster(t *testing.T) {
	n := node(t, "redis+cluster://ann:s3cret@a:1,b:2")
	o := n.Client.(*redis.ClusterClient).Options()
	if !slices.Equal(o.Addrs, []string{"a:1", "b:2"}) || o.Username != "ann" || o.Password != "s3cret" {
		t.Errorf("options %+v", o)
	}
	if got := n.String(); got != "the cluster at a:1, b:2" {
		t.Error(got)
	}
	requireServer(t, n, 0)
}

func TestOpenQuorum(t *testing.T) {
	s, err := Opener{}.Open("redis://:s3cret@a:1,redis+sentinel://b:1,b:2/main,redis+cluster://c:1,c:2")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var kinds []NodeKind
	for _, n := range s.Nodes() {
		kinds = append(kinds, n.(*RedisNode).Kind)
	}
	if !slices.Equal(kinds, []NodeKind{Single, Sentinel, Cluster}) {
		t.Errorf("nodes of kinds %v", kinds)
	}
	if got := s.String(); got != "the quorum of a:1 and main by b:1 and cluster c:1" {
		t.Error(got)
	}
}

// requireServer checks that one server is reached as the URL's user, and tried once.
func requireServer(t *testing.T, n *RedisNode, db int) {
	t.Helper()
	c := n.Server("d:4")
	defer c.Close()
	o := c.Options()
	if o.Addr != "d:4" || o.Username != "ann" || o.Password != "s3cret" || o.DB != db {
		t.Errorf("options of a server %+v", o)
	}
	if o.MaxRetries != 0 || !o.ContextTimeoutEnabled || o.DialTimeout != dialTimeout {
		t.Errorf("options of a server %+v", o)
	}
}

func TestBadURLsSayWhatToWriteAndShowNoPassword(t *testing.T) {
	for _, text := range []string{
		"", "localhost:6379", "http://x", "redis://", "redis://host:port", "redis://host/notanumber",
		"redis://:s3#cret@host", "redis://ann/s3cret@host", "redis://:s3%cret@host:1",
		"redis://:s3cret@host/x", "redis://host?nosuch=1", "redis://a,redis://:s3cret@b/x",
		"redis+sentinel://:s3cret@a:1,b:2", "redis+cluster://:s3cret@a:1/4", "redis+cluster://a,,b",
		"redis://:s3cret@a,redis://:s3cret@a/2", "redis://a,redis://b,redis://:s3cret@a:6379", "redis+sentinel://a,b/m,redis+sentinel://c,:s3cret@b/m",
		"redis://0:/s3cret,://@", "redis://ann:1/s3cret,x://y@host", // a raw comma in a password, not two URLs
	} {
		_, err := Opener{}.Open(text)
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("Open(%q): %v, want an *Error", text, err)
			continue
		}
		if strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "cret") {
			t.Errorf("Open(%q) shows the password: %v", text, err)
		}
		if !strings.Contains(err.Error(), "write ") && !strings.Contains(err.Error(), "give ") && !strings.Contains(err.Error(), "end ") {
			t.Errorf("Open(%q) does not say what to do: %v", text, err)
		}
	}
}

func node(t *testing.T, text string) *RedisNode {
	t.Helper()
	s, err := Opener{}.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Nodes()[0].(*RedisNode)
}
