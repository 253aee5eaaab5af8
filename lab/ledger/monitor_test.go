package ledger

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A Watch reads the writes of scripts, before and after a restart of the server, and knows when it has seen nothing.
func TestWatchOverARestart(t *testing.T) {
	s := redistest.Start(t)
	began := time.Now()
	now := func() time.Duration { return time.Since(began) }
	l := New("app", began)
	w, err := l.Watch(&redis.Options{Addr: s.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	grant := func(holder string) {
		t.Helper()
		if err := rdb.Eval(t.Context(), `return redis.call('HSET', KEYS[1], 'deadline', ARGV[1], 'holder', ARGV[2])`,
			[]string{"app:{x}"}, time.Now().Add(time.Minute).UnixMicro(), holder).Err(); err != nil {
			t.Fatal(err)
		}
	}
	grant("c.a")
	redistest.Await(t, 5*time.Second, "MONITOR to send the first grant", func() bool { // a server that is killed may not send it any more
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.of("x", "c.a")) > 0
	})
	s.Kill()
	down := now()
	s.Restart()
	for rdb.Ping(t.Context()).Err() != nil {
	}
	redistest.Await(t, 5*time.Second, "the Watch to follow the restart", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.blind) == 1
	})
	grant("c.b")
	after := now()
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, holder := range []string{"c.a", "c.b"} {
		if got := l.of("x", holder).deadlineIn(down, down); holder == "c.a" && got < 50*time.Second {
			t.Errorf("%s: deadline %v", holder, got)
		}
	}
	if got := l.of("x", "c.a").deadlineIn(after, after); got != never {
		t.Errorf("c.a, which c.b replaced, has deadline %v", got)
	}
	if got := l.of("x", "c.b").deadlineIn(after, after); got < 50*time.Second {
		t.Errorf("c.b: deadline %v", got)
	}
	if !l.unseen(down, down) {
		t.Errorf("blind %v, and the server was down at %v", l.blind, down)
	}
}

func TestWatchFails(t *testing.T) {
	l := New("app", time.Now())
	if _, err := l.Watch(&redis.Options{Addr: "127.0.0.1:1"}); err == nil {
		t.Error("watched a server that is not there")
	}
	if _, err := l.Watch(&redis.Options{Addr: "127.0.0.1:1", Password: "secret"}); err == nil {
		t.Error("watched a server with a password")
	}
}

// A Watch ends at any time, also while its connection ends and another begins.
func TestWatchEndsAtAnyTime(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialled := make(chan struct{}, 1)
	var served sync.WaitGroup
	served.Go(func() { // a server whose connections end at once
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("+OK\r\n"))
			conn.Close()
			select {
			case dialled <- struct{}{}:
			default:
			}
		}
	})
	ended := 0
	for i := range 300 {
		w, err := New("app", time.Now()).Watch(&redis.Options{Addr: l.Addr().String()})
		if err != nil {
			continue // it ended before its answer was read
		}
		for range i % 5 {
			<-dialled
		}
		w.cancel()
		<-w.done
		ended++
	}
	if ended < 100 {
		t.Errorf("%d of 300 began", ended)
	}
	l.Close()
	served.Wait()
}
