package zookeeper

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// listener is what a test received. A resync is an empty body.
type listener struct {
	*inboxWatch
	got chan string
}

func listen(t testing.TB, s *store, client string) *listener {
	t.Helper()
	l := &listener{got: make(chan string, 1000)}
	c, err := s.Listen(t.Context(), cas.Address{Prefix: "p", Client: client}, func(b []byte) { l.got <- string(b) }, func() { l.got <- "" })
	if err != nil {
		t.Fatal(err)
	}
	l.inboxWatch = c.(*inboxWatch)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// want waits for a body.
func (l *listener) want(t testing.TB, body string) {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case got := <-l.got:
			if got == body {
				return
			}
		case <-timeout:
			t.Fatalf("%q did not arrive", body)
		}
	}
}

func message(client, body string) cas.Message {
	return cas.Message{To: cas.Address{Prefix: "p", Client: client}, Body: []byte(body)}
}

// Every message arrives, or a resync does: also if many are sent before the client reads.
func TestMessagesInQuickSuccession(t *testing.T) {
	s := open(t)
	l := listen(t, s, "c")
	const n = 300
	var rev uint64
	for i := range n {
		out := swap(t, s, cas.Change{Key: key("a"), Rev: rev, Value: []byte("v"), Messages: []cas.Message{message("c", fmt.Sprint(i))}})
		if rev = out.Doc.Rev; !out.Swapped {
			t.Fatalf("not swapped: %+v", out)
		}
	}
	var missing []string
	for i := range n {
		missing = append(missing, fmt.Sprint(i))
	}
	timeout := time.After(10 * time.Second)
	resyncs := 0
	for len(missing) > 0 {
		select {
		case got := <-l.got:
			if got == "" {
				resyncs++
			} else if i := slices.Index(missing, got); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
			}
		case <-timeout:
			t.Fatalf("%d messages did not arrive, and %d resyncs did", len(missing), resyncs)
		default:
			if resyncs > 0 && len(l.got) == 0 {
				return // what is missing was replaced
			}
		}
	}
}

// A message to a client without an inbox, or one that is too long, does not hinder the change.
func TestChangeWithoutAnInbox(t *testing.T) {
	s := open(t)
	l := listen(t, s, "here")
	long := strings.Repeat("x", maxLetter)
	out := swap(t, s, cas.Change{Key: key("a"), Value: []byte("v"), Messages: []cas.Message{message("gone", "lost"), message("here", "found")}})
	if !out.Swapped {
		t.Fatalf("%+v", out)
	}
	l.want(t, "found")
	out = swap(t, s, cas.Change{Key: key("a"), Rev: out.Doc.Rev, Value: []byte("w"), Messages: []cas.Message{message("here", long), message("here", "y")}})
	if !out.Swapped || string(read(t, s, key("a")).Value) != "w" {
		t.Fatalf("%+v", out)
	}
	l.want(t, "")
}

// A change that sends many clients away reaches all of them.
func TestMessagesToMany(t *testing.T) {
	s := open(t)
	const n = 100
	var all []*listener
	var messages []cas.Message
	for i := range n {
		all = append(all, listen(t, s, fmt.Sprint(i)))
		messages = append(messages, message(fmt.Sprint(i), "for all"))
	}
	if out := swap(t, s, cas.Change{Key: key("a"), Value: []byte("v"), Messages: messages}); !out.Swapped {
		t.Fatalf("%+v", out)
	}
	for _, l := range all {
		l.want(t, "for all")
	}
}

func TestClosedInboxIsRemoved(t *testing.T) {
	s := open(t)
	l := listen(t, s, "c")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := s.children(t.Context(), above(s.inboxPath(l.to, 0)))
	if err != nil || len(names) > 0 {
		t.Errorf("%q are left, %v", names, err)
	}
}

// The session ends while the connection is cut off. In the next one the inbox is there again, after a resync.
func TestInboxAfterTheSession(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newStore(connect(t, 500*time.Millisecond, proxy.Addr()), WithRoot("/session"))
	other := newStore(connect(t, 10*time.Second, server.Addr()), WithRoot("/session"))
	l := listen(t, s, "c")
	rev := swap(t, other, cas.Change{Key: key("a"), Value: []byte("1"), Messages: []cas.Message{message("c", "first")}}).Doc.Rev
	l.want(t, "first")
	session := s.conn.SessionID()
	proxy.Blackhole()
	proxy.Refuse()
	redistest.Await(t, 20*time.Second, "the end of the inbox", func() bool {
		names, err := other.children(t.Context(), above(s.inboxPath(l.to, 0)))
		return err == nil && len(names) == 0
	})
	rev = swap(t, other, cas.Change{Key: key("a"), Rev: rev, Value: []byte("2"), Messages: []cas.Message{message("c", "lost")}}).Doc.Rev
	proxy.Heal()
	proxy.Accept()
	proxy.Cut()
	l.want(t, "")
	if s.conn.SessionID() == session {
		t.Error("the session is the same: the test shows nothing")
	}
	redistest.Await(t, 20*time.Second, "a message in the next session", func() bool {
		rev = swap(t, other, cas.Change{Key: key("a"), Rev: rev, Value: []byte("3"), Messages: []cas.Message{message("c", "again")}}).Doc.Rev
		for {
			select {
			case got := <-l.got:
				if got == "again" {
					return true
				}
			case <-time.After(200 * time.Millisecond): // this session may have ended too
				return false
			}
		}
	})
}

// A connection that is silently dead is replaced, and what was sent meanwhile arrives.
func TestSilentlyDeadConnection(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newStore(connect(t, 3*time.Second, proxy.Addr()), WithRoot("/silent"))
	other := newStore(connect(t, 10*time.Second, server.Addr()), WithRoot("/silent"))
	l := listen(t, s, "c")
	proxy.Blackhole()
	rev := swap(t, other, cas.Change{Key: key("a"), Value: []byte("1"), Messages: []cas.Message{message("c", "meanwhile")}}).Doc.Rev
	dead := proxy.Links()
	redistest.Await(t, 20*time.Second, "the end of the dead connection", func() bool { return proxy.Links() != dead || s.conn.State() != zk.StateHasSession })
	proxy.Heal()
	l.want(t, "meanwhile")
	swap(t, other, cas.Change{Key: key("a"), Rev: rev, Value: []byte("2"), Messages: []cas.Message{message("c", "again")}})
	l.want(t, "again")
}
