package redistest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// behind returns a server, a proxy before it and a one-try client of the proxy.
func behind(t *testing.T) (*Server, *Proxy, *redis.Client) {
	t.Helper()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	return s, p, s.Client(oneTry, func(o *redis.Options) { o.Addr = p.Addr() })
}

func short(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustPing(t *testing.T, c *redis.Client) {
	t.Helper()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestProxyRelays(t *testing.T) {
	_, p, c := behind(t)
	big := strings.Repeat("x", 1<<20)
	if err := c.Set(t.Context(), "a", big, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if got := c.Get(t.Context(), "a").Val(); got != big {
		t.Fatalf("%d bytes came back", len(got))
	}
	if p.Links() != 1 {
		t.Fatalf("%d links for one command at a time", p.Links())
	}
}

func TestProxyDelaysEachWay(t *testing.T) {
	_, p, c := behind(t)
	mustPing(t, c)
	const d = 40 * time.Millisecond
	p.Delay(d)
	start := time.Now()
	mustPing(t, c)
	if took := time.Since(start); took < 2*d {
		t.Fatalf("a round trip took %v", took)
	}
	p.Delay(0)
	for range 100 { // a busy machine may be slow once
		start = time.Now()
		mustPing(t, c)
		if time.Since(start) < d {
			return
		}
	}
	t.Fatal("still delayed after Delay(0)")
}

func TestProxyCutEndsOpenConnectionsOnly(t *testing.T) {
	s, p, _ := behind(t)
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p.Cut() // the link may still be on its way to the server
	p.Cut()
	mustPing(t, s.Client(func(o *redis.Options) { o.Addr = p.Addr() }))
	raw := dialThrough(t, p)
	p.Cut()
	if _, err := raw.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Fatalf("a cut connection: %v", err)
	}
}

func TestProxyRefusesUntilAccept(t *testing.T) {
	_, p, c := behind(t)
	p.Refuse()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Fatal("answered while refusing")
	}
	p.Accept()
	mustPing(t, c)
}

func TestProxyOfADeadServer(t *testing.T) {
	s, p, c := behind(t)
	mustPing(t, c)
	s.Kill()
	for range 2 { // the open connection, then a new one
		if err := c.Ping(t.Context()).Err(); err == nil {
			t.Fatal("a dead server answered")
		}
	}
	s.Restart()
	mustPing(t, c)
	if p.Links() == 0 {
		t.Fatal("no link after the restart")
	}
}

func TestBlackholeHoldsUntilHeal(t *testing.T) {
	for name, d := range map[string][]Direction{"both": nil, "to server": {ToServer}, "to client": {ToClient}} {
		s, p, c := behind(t)
		mustPing(t, c)
		p.Blackhole(d...)
		result := make(chan error, 1)
		go func() { result <- c.Incr(short(t, time.Minute), "n").Err() }()
		select {
		case err := <-result:
			t.Fatalf("%s: answered through a hole: %v", name, err)
		case <-time.After(50 * time.Millisecond):
		}
		if name != "to client" {
			if got := s.Client().Get(t.Context(), "n").Val(); got != "" {
				t.Fatalf("%s: the command reached the server", name)
			}
		}
		p.Heal()
		if err := <-result; err != nil {
			t.Fatalf("%s: after Heal: %v", name, err)
		}
	}
}

func TestHeldCommandArrivesAfterItsClientHungUp(t *testing.T) {
	s, p, _ := behind(t)
	conn := dialThrough(t, p)
	p.Blackhole()
	if _, err := io.WriteString(conn, "RPUSH late 1\r\n"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	p.Heal()
	got, err := s.Client().BLPop(short(t, 10*time.Second), 0, "late").Result()
	if err != nil || len(got) != 2 {
		t.Fatalf("the late command did not arrive: %v %v", got, err)
	}
}

func TestCutDropsWhatIsHeld(t *testing.T) {
	s, p, c := behind(t)
	mustPing(t, c)
	p.Blackhole(ToServer)
	if err := c.Set(short(t, 20*time.Millisecond), "a", 1, time.Minute).Err(); err == nil {
		t.Fatal("answered through a hole")
	}
	p.Cut()
	p.Heal()
	mustPing(t, c)
	if got := s.Client().Get(t.Context(), "a").Val(); got != "" {
		t.Fatal("a dropped command arrived")
	}
}

func TestLoseReply(t *testing.T) {
	s, p, c := behind(t)
	point := p.LoseReply("victim")
	if err := c.Incr(t.Context(), "other").Err(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-point.Hit():
		t.Fatal("hit by another command")
	default:
	}
	if err := c.Incr(t.Context(), "victim").Err(); err == nil {
		t.Fatal("the reply came through")
	}
	point.RequireHit(t)
	if got := s.Client().Get(t.Context(), "victim").Val(); got != "1" {
		t.Fatalf("the command was done %q times", got)
	}
	if err := c.Incr(t.Context(), "victim").Err(); err != nil {
		t.Fatalf("a point happens once: %v", err)
	}
}

func TestLoseReplyOfAResentCommandShowsTwice(t *testing.T) {
	s := Start(t)
	p := NewProxy(t, s.Addr())
	c := s.Client(func(o *redis.Options) { o.Addr = p.Addr() }) // go-redis's default: resend
	first, second := p.LoseReply("victim"), p.LoseReply("victim")
	if got, err := c.Incr(t.Context(), "victim").Result(); err != nil || got != 3 {
		t.Fatalf("got %d, %v", got, err)
	}
	first.RequireHit(t)
	second.RequireHit(t)
}

func TestLoseReplySeesACommandInPieces(t *testing.T) {
	_, p, _ := behind(t)
	conn := dialThrough(t, p)
	point := p.LoseReply("victim")
	for _, piece := range []string{"INCR vic", "t", "im\r\n"} {
		if _, err := io.WriteString(conn, piece); err != nil {
			t.Fatal(err)
		}
		// A reply from another connection shows that time has passed; the
		// pieces may arrive apart or together, and must match in any case.
		dialThrough(t, p)
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || isTimeout(err) {
		t.Fatalf("%d bytes of the reply came through, %v", n, err)
	}
	point.RequireHit(t)
}

// dialThrough returns a raw connection that the server has answered on.
func dialThrough(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("+PONG\r\n"))); err != nil {
		t.Fatal(err)
	}
	return conn
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
