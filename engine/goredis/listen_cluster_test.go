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
	if c.away == nil {
		c.away = map[string]bool{}
	}
	c.away[addr] = away
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

// channelsOf returns one core for each master.
func channelsOf(t *testing.T, s *clusterListener) map[string]string {
	t.Helper()
	cores := map[string]string{}
	for i := 0; len(cores) < 3; i++ {
		core := fmt.Sprint("r", i)
		node, err := s.cluster.MasterForKey(t.Context(), core)
		if err != nil {
			t.Fatal(err)
		}
		cores[node.Options().Addr] = core
	}
	return cores
}

// A master that stays away does not keep a Resync from those who wait for resources of another one, whose subscription
// was lost and is back. When it is back itself, another one follows.
func TestResyncDoesNotWaitForAMasterThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &pretended{masters: []string{"a:1", "b:1", "c:1"}}
		_, s, resyncs := listenTo(t, c)
		for _, core := range channelsOf(t, s) {
			s.need(core, time.Hour)
		}
		time.Sleep(time.Second)
		c.lose("a:1", true)
		time.Sleep(time.Second)
		before := resyncs()
		c.lose("b:1", false)
		time.Sleep(2 * resyncWait)
		if n := resyncs(); n == before {
			t.Error("no Resync after the subscription at b was lost and is back, while a is away")
		} else if n > before+2 {
			t.Errorf("%d Resyncs", n-before)
		}
		before = resyncs()
		time.Sleep(time.Minute)
		if n := resyncs(); n != before {
			t.Errorf("%d Resyncs while nothing came back", n-before)
		}
		c.lose("a:1", false)
		time.Sleep(2 * resyncWait)
		if n := resyncs(); n == before {
			t.Error("no Resync after a is back")
		}
	})
}

// The interests of a master that stays away end, and with them what a Resync waits for.
func TestResyncAfterInterestsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &pretended{masters: []string{"a:1", "b:1", "c:1"}}
		_, s, resyncs := listenTo(t, c)
		s.need(channelsOf(t, s)["a:1"], 0)
		time.Sleep(time.Second)
		before := resyncs()
		c.lose("a:1", true)
		time.Sleep(interestLife + 2*interestSweep)
		if s.count() != 0 || resyncs() == before {
			t.Errorf("%d interests, %d Resyncs; want 0, some", s.count(), resyncs()-before)
		}
	})
}

// A refusal of sharded channels, as during a change of rights, is not for ever.
func TestShardsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &pretended{masters: []string{"a:1", "b:1"}, denied: true}
		_, s, _ := listenTo(t, c)
		s.need("r", time.Second)
		time.Sleep(time.Second)
		if n := s.count(); n != 0 {
			t.Fatalf("%d interests that are denied", n)
		}
		c.mu.Lock()
		c.denied = false
		c.mu.Unlock()
		time.Sleep(time.Minute)
		s.need("r", time.Second)
		time.Sleep(time.Second)
		if n := s.count(); n != 1 {
			t.Error("sharded channels are not tried again after a minute")
		}
	})
}

// The end of a subscription that is connecting to a former master delays nobody.
// If it does, the test ends by its timeout: virtual time does not pass while a mutex is awaited.
func TestRetainEndsASubscriptionThatConnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &pretended{masters: []string{"a:1", "b:1", "c:1"}, hangs: map[string]bool{"c:1": true}}
		e, s, _ := listenTo(t, c)
		s.need(channelsOf(t, s)["c:1"], time.Hour)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		e.interests.retain(map[string]bool{"a:1": true, "b:1": true})
		if d := time.Since(start); d > 0 {
			t.Errorf("requests had to wait %v", d)
		}
	})
}

// A message to all nodes may have the text of an earlier one. It is delivered once, also if the subscription that
// received the earlier one first is gone or hangs.
func TestMessageWithTheSameText(t *testing.T) {
	var s clusterListener
	a, b := new(subscription), new(subscription)
	for i, step := range []struct {
		by  *subscription
		new bool
	}{{a, true}, {b, false}, {b, true}, {b, true}, {a, false}, {a, false}, {a, true}, {b, false}} {
		if got := s.isNew(step.by, "w c.x"); got != step.new {
			t.Errorf("step %d: new is %v, want %v", i, got, step.new)
		}
	}
}

// A subscription that begins receives the messages from when it has subscribed: not again what another has received before,
// and one more with that text is new.
func TestMessagesWhileASubscriptionBegins(t *testing.T) {
	var s clusterListener
	a, b := &subscription{s: &s}, &subscription{s: &s}
	want := func(when string, by *subscription, want bool) {
		t.Helper()
		if got := s.isNew(by, "w c.x"); got != want {
			t.Errorf("%s: new is %v, want %v", when, got, want)
		}
	}
	want("before b subscribes, at a", a, true)
	s.passed(b)
	want("while b subscribes, at a", a, true)
	s.begin(b)
	want("while b subscribes, at b", b, false)
	want("after that, at b first", b, true)
	want("after that, at a", a, false)
}
