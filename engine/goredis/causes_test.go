package goredis_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Every call names why it failed, in the server's or the network's own words,
// also when it was the connection that could not be made.
func TestEveryFailureNamesItsCause(t *testing.T) {
	t.Parallel()
	open := redistest.Start(t)
	locked := redistest.Start(t, redistest.WithPassword("right"))
	secure, ca := startTLS(t)
	admin := open.Client()
	must(t, admin.Do(t.Context(), "acl", "setuser", "reader", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval", "-subscribe").Err())
	quick := func(s *redistest.Server, change func(*redis.Options)) *redis.Client {
		return s.Client(func(o *redis.Options) {
			o.DialerRetries, o.MaxRetries = 1, -1
			change(o)
		})
	}
	dead := redistest.Start(t)
	dead.Kill()
	for what, c := range map[string]struct {
		rdb  *redis.Client
		kind error
		text string
	}{
		"wrong password":      {quick(locked, func(o *redis.Options) { o.Password = "wrong" }), engine.ErrDenied, "WRONGPASS"},
		"wrong user":          {quick(open, func(o *redis.Options) { o.Username, o.Password = "nobody", "x" }), engine.ErrDenied, "WRONGPASS"},
		"no password":         {quick(locked, func(o *redis.Options) { o.Password = "" }), engine.ErrDenied, "NOAUTH"},
		"no right":            {quick(open, func(o *redis.Options) { o.Username, o.Password = "reader", "secret" }), engine.ErrDenied, "NOPERM"},
		"no such database":    {quick(open, func(o *redis.Options) { o.DB = 99 }), engine.ErrDenied, "DB index is out of range"},
		"connection refused":  {quick(dead, func(*redis.Options) {}), engine.ErrUnavailable, "connection refused"},
		"no such host":        {quick(open, func(o *redis.Options) { o.Addr = "no-such-host.invalid:6379" }), engine.ErrUnavailable, "no-such-host.invalid"},
		"unknown authority":   {quick(open, func(o *redis.Options) { o.Addr, o.TLSConfig = secure, &tls.Config{} }), engine.ErrUnavailable, "unknown authority"},
		"another host's cert": {quick(open, func(o *redis.Options) { o.Addr, o.TLSConfig = secure, &tls.Config{RootCAs: ca, ServerName: "other"} }), engine.ErrUnavailable, "not other"},
		"TLS on a plain port": {quick(open, func(o *redis.Options) {
			o.TLSConfig = &tls.Config{RootCAs: ca}
			o.DialTimeout = 200 * time.Millisecond // the server waits for the rest of a line
		}), engine.ErrUnavailable, "does not speak TLS"},
		"plain on a TLS port": {quick(open, func(o *redis.Options) { o.Addr = secure }), engine.ErrUnavailable, "expects TLS"},
		"protected mode":      {quick(open, func(o *redis.Options) { o.Addr = turnsAway(t, "-DENIED Redis is running in protected mode") }), engine.ErrDenied, "DENIED Redis is running in protected mode"},
		"too many clients":    {quick(full(t), func(*redis.Options) {}), engine.ErrUnavailable, "max number of clients reached"},
	} {
		t.Run(what, func(t *testing.T) {
			e := goredis.New(c.rdb)
			r := request("c1.a")
			r.Client = &engine.Client{ID: "c1"}
			errs := calls(t.Context(), e, r)
			r.Queue = !r.Queue
			_, errs["Acquire that differs in Queue"] = e.Acquire(t.Context(), r)
			r.Queue = !r.Queue
			_, errs["the first Acquire"] = e.Acquire(t.Context(), r)
			r.Client = &engine.Client{ID: "c2"}
			_, errs["Acquire of a new client"] = e.Acquire(t.Context(), r)
			_, errs["Listen"] = e.Listen(t.Context(), prefix, "c1", func(engine.Wakeup) {})
			_, errs["Now"] = e.Now(t.Context())
			for _, err := range e.List(t.Context(), prefix, "*") {
				errs["List"] = err
			}
			for call, err := range errs {
				if what == "no right" && (call == "Now" || call == "List") {
					continue
				}
				wantError(t, call, err, c.kind)
				if err == nil || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%s: %v does not say %q", call, err, c.text)
				}
			}
		})
	}
}

// startTLS starts a server with TLS, and returns its address and who vouches for
// it. No client of the test gets further than its certificate.
func startTLS(t *testing.T) (addr string, ca *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca = x509.NewCertPool()
	ca.AddCert(s.Certificate())
	return s.Listener.Addr().String(), ca
}

// turnsAway listens as a server that writes an answer and hangs up before it gets a request.
func turnsAway(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "%s\r\n", answer)
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// full starts a server that has all the clients that it takes.
func full(t *testing.T) *redistest.Server {
	t.Helper()
	server := redistest.Start(t)
	rdb := server.Client(func(o *redis.Options) { o.PoolSize = 1 })
	must(t, rdb.ConfigSet(t.Context(), "maxclients", "1").Err())
	return server
}
