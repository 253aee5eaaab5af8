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
	c := open(t, "redis://ann:s3cret@example.test:7000/2").(*redis.Client)
	o := c.Options()
	if o.Addr != "example.test:7000" || o.DB != 2 || o.Username != "ann" || o.Password != "s3cret" || o.TLSConfig != nil {
		t.Errorf("options %+v", o)
	}
	if o.DialTimeout != dialTimeout {
		t.Errorf("dial timeout %v", o.DialTimeout)
	}
	if o := open(t, "rediss://example.test").(*redis.Client).Options(); o.TLSConfig == nil || o.Addr != "example.test:6379" {
		t.Errorf("options %+v", o)
	}
}

func TestOpenSentinel(t *testing.T) {
	c := open(t, "redis+sentinel://ann:s3cret@a:1,b:2/main/3?sentinel_password=other")
	o := c.(*redis.Client).Options()
	if o.DB != 3 || o.Username != "ann" || o.Password != "s3cret" {
		t.Errorf("options %+v", o)
	}
	if d := Describe(c); d != "the master that Sentinel names" {
		t.Error(d)
	}
}

func TestOpenCluster(t *testing.T) {
	o := open(t, "redis+cluster://ann:s3cret@a:1,b:2").(*redis.ClusterClient).Options()
	if !slices.Equal(o.Addrs, []string{"a:1", "b:2"}) || o.Username != "ann" || o.Password != "s3cret" {
		t.Errorf("options %+v", o)
	}
}

func TestBadURLsSayWhatToWriteAndShowNoPassword(t *testing.T) {
	for _, text := range []string{
		"", "localhost:6379", "http://x", "redis://", "redis://host:port", "redis://host/notanumber",
		"redis://:s3#cret@host", "redis://ann/s3cret@host", "redis://:s3%cret@host:1",
		"redis://:s3cret@host/x", "redis://host?nosuch=1", "redis://a,redis://:s3cret@b",
		"redis+sentinel://:s3cret@a:1,b:2", "redis+cluster://:s3cret@a:1/4", "redis+cluster://a,,b",
	} {
		_, err := Open(text)
		var bad *Error
		if !errors.As(err, &bad) {
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

func open(t *testing.T, text string) redis.UniversalClient {
	t.Helper()
	c, err := Open(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
