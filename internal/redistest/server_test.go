package redistest

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimRole) != "" {
		victim()
		return
	}
	leaktest.Main(m)
}

// oneTry disables retries, and makes calls return when their ctx ends.
func oneTry(o *redis.Options) {
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
}

func TestServerAnswersAndEnds(t *testing.T) {
	var addr, dir string
	t.Run("alive", func(t *testing.T) {
		s := Start(t)
		addr, dir = s.Addr(), s.Dir()
		if got := s.Client().Ping(t.Context()).Val(); got != "PONG" {
			t.Fatalf("PING answered %q", got)
		}
		if s.URL() != "redis://"+addr {
			t.Fatalf("URL %q, address %q", s.URL(), addr)
		}
		s.Pause() // the end must work on a stopped server too
	})
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("the server still listens after the test")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

func TestPauseHoldsAnswersUntilResume(t *testing.T) {
	s := Start(t)
	c := s.Client(oneTry)
	if err := c.Set(t.Context(), "a", 1, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Get(ctx, "a").Err(); err == nil {
		t.Fatal("a stopped server answered")
	}
	s.Resume()
	if got := c.Get(t.Context(), "a").Val(); got != "1" {
		t.Fatalf("after Resume: %q", got)
	}
}

func TestRestartKeepsThePortAndRequestedDataOnly(t *testing.T) {
	for name, opts := range map[string][]Option{"empty": nil, "1": {WithAppendOnly()}} {
		s := Start(t, opts...)
		addr, pid := s.Addr(), s.PID()
		if err := s.Client().Set(t.Context(), "a", 1, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		s.Kill()
		if s.PID() != 0 {
			t.Fatal("a killed server has a process ID")
		}
		s.Restart()
		if s.Addr() != addr || s.PID() == pid {
			t.Fatalf("address %s then %s, process %d then %d", addr, s.Addr(), pid, s.PID())
		}
		want := strings.TrimPrefix(name, "empty")
		if got := s.Client().Get(t.Context(), "a").Val(); got != want {
			t.Errorf("case %s: after Restart the key is %q", name, got)
		}
		s.Restart() // of a live one
		if err := s.Client().Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestPasswordIsRequiredAndCarried(t *testing.T) {
	s := Start(t, WithPassword("secret"))
	if err := s.Client().Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	o, err := redis.ParseURL(s.URL())
	if err != nil || o.Password != "secret" {
		t.Fatalf("URL %q: %v", s.URL(), err)
	}
	bare := s.Client(func(o *redis.Options) { o.Password = "" })
	if err := bare.Get(t.Context(), "a").Err(); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Fatalf("without the password: %v", err)
	}
}

func TestPortClashMovesOn(t *testing.T) {
	s := Start(t)
	_, err := s.conf.launch(s.Dir(), s.port)
	if !errors.Is(err, ErrPortTaken) {
		t.Fatalf("a second server on one port: %v", err)
	}
}

func TestBadArgumentIsReportedWithTheServersMessage(t *testing.T) {
	_, err := Launch(WithArgs("--no-such-directive", "1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Fatalf("got %v", err)
	}
}

func TestMissingServerSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(programEnv, "")
	_, err := Launch()
	if err == nil || !strings.Contains(err.Error(), "install redis-server") {
		t.Fatalf("got %v", err)
	}
}

func TestAnotherVersionDoesNotStart(t *testing.T) {
	t.Setenv(versionEnv, "")
	is := Start(t).version()
	t.Setenv(versionEnv, is)
	if s := Start(t); !s.Since(6, 2) || !s.Since(5, 9) || s.Since(99, 0) {
		t.Errorf("Since is wrong for Redis %s", is)
	}
	t.Setenv(versionEnv, is+"1")
	if _, err := Launch(); err == nil || !strings.Contains(err.Error(), strconv.Quote(is)) {
		t.Errorf("got %v", err)
	}
}

func TestKeysWithTheirTTLs(t *testing.T) {
	s := Start(t)
	c := s.Client()
	for i := range 3000 { // more than one page of the scan
		c.Set(t.Context(), "bulk:"+string(rune('a'+i%26))+time.Duration(i).String(), 1, time.Hour)
	}
	s.RequireTTLs(t)
	c.Set(t.Context(), "immortal", 1, 0)
	keys, err := s.Keys(t.Context())
	if err != nil || len(keys) != 3001 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		if (k.Name == "immortal") != (k.TTL == NoTTL) {
			t.Errorf("%q has TTL %v", k.Name, k.TTL)
		}
	}
	s.RequireEmpty(t, "other:")
	for name, check := range map[string]func(testing.TB){
		"TTLs":  s.RequireTTLs,
		"empty": func(t testing.TB) { s.RequireEmpty(t, "bulk:") },
	} {
		if !failed(check) {
			t.Errorf("the check of %s passes on a bad server", name)
		}
	}
}

// failed runs a check against a stand-in for the test and reports whether it
// called Fatalf.
func failed(check func(testing.TB)) bool {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		check(r)
	}()
	<-done
	return r.failed
}

// recorder is a testing.TB that only notes a failure.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper() {}
func (r *recorder) Fatalf(string, ...any) {
	r.failed = true
	panic("failed")
}
func (r *recorder) Errorf(string, ...any) { r.failed = true }
