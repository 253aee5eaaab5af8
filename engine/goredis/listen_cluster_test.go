package goredis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
)

// pretended is a cluster of masters that only confirm subscriptions, in virtual time.
type pretended struct {
	masters []string

	mu     sync.Mutex
	conns  map[net.Conn]string // to which master
	away   map[string]bool     // refuses connections
	hangs  map[string]bool     // does not let a connection begin
	denied bool                // SSUBSCRIBE is not allowed
}

// listenTo opens a stream of a client of a pretended cluster. It returns it with its engine and how many Resyncs arrived.
func listenTo(t *testing.T, c *pretended) (*Engine, *clusterListener, func() int) {
	t.Helper()
	var slots []redis.ClusterSlot
	for i, addr := range c.masters {
		n := 16384 / len(c.masters)
		end := (i+1)*n - 1
		if i == len(c.masters)-1 {
			end = 16383
		}
		slots = append(slots, redis.ClusterSlot{Start: i * n, End: end, Nodes: []redis.ClusterNode{{Addr: addr}}})
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.masters, Dialer: c.dial,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
	})
	e := New(rdb)
	var mu sync.Mutex
	resyncs := 0
	l, err := e.Listen(t.Context(), "p", "c", func(w engine.Wakeup) {
		mu.Lock()
		defer mu.Unlock()
		if w.Kind == engine.Resync {
			resyncs++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.Close()
		e.Leave("c")
		_ = rdb.Close()
	})
	return e, l.(*clusterListener), func() int {
		mu.Lock()
		defer mu.Unlock()
		return resyncs
	}
}

func (c *pretended) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away[addr] {
		return nil, errors.New("refused")
	}
	if c.hangs[addr] {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return nil, ctx.Err()
	}
	near, far := net.Pipe()
	if c.conns == nil {
		c.conns = map[net.Conn]string{}
	}
	c.conns[far] = addr
	go c.serve(far)
	return near, nil
}

// serve answers until the connection ends.
func (c *pretended) serve(conn net.Conn) {
	defer conn.Close()
	replies := make(chan string, 1000)
	defer close(replies)
	go func() {
		for text := range replies {
			_, _ = io.WriteString(conn, text)
		}
	}()
	for r := bufio.NewReader(conn); ; {
		words, err := readCommand(r)
		if err != nil {
			return
		}
		c.mu.Lock()
		denied := c.denied
		c.mu.Unlock()
		switch word := strings.ToLower(words[0]); {
		case word == "ssubscribe" && denied:
			replies <- "-NOPERM not allowed\r\n"
		case strings.HasSuffix(word, "subscribe"):
			replies <- fmt.Sprintf("*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n:1\r\n", len(word), word, len(words[1]), words[1])
		case word == "ping":
			replies <- "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
		default:
			replies <- "-ERR unknown command\r\n"
		}
	}
}

// readCommand reads a command.
func readCommand(r *bufio.Reader) (words []string, err error) {
	number := func() (n int) {
		line, e := r.ReadString('\n')
		if err = e; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for n := number(); err == nil && len(words) < n; {
		text := make([]byte, number()+2)
		if err == nil {
			_, err = io.ReadFull(r, text)
		}
		words = append(words, string(text[:len(text)-2]))
	}
	return words, err
}

// lose ends the connections to a master, which refuses new ones if it is away.
func (c *pretended) lose(addr string, away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = map[string]bool{addr: away}
	for conn, to := range c.conns {
		if to == addr {
			_ = conn.Close()
			delete(c.conns, conn)
		}
	}
}

func (s *clusterListener) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.interests)
}

// A client that always works on new resources does not collect the channels of old ones.
func TestInterestsEndWhileOthersBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := listenTo(t, &pretended{masters: []string{"a:1", "b:1"}})
		for i := range 300 {
			s.need(fmt.Sprint("r", i), 0)
			time.Sleep(time.Second)
		}
		if n := s.count(); n > 80 { // those of interestLife and interestSweep
			t.Errorf("%d interests after five minutes, one a second", n)
		}
	})
}
