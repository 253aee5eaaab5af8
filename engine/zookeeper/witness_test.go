package zookeeper

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/storetest"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

// A witness lasts for its time although the leader is killed, or hangs for longer than that.
func witnessOutlivesLeaders(t *testing.T, ensemble *zkservers.Ensemble) {
	s := newStore(connect(t, 2*time.Second, ensemble.Addrs()...))
	t.Run("Killed", func(t *testing.T) {
		storetest.WitnessOutlives(t, s, func() {
			leader := ensemble.Leader(t)
			leader.Kill()
			<-time.After(time.Second)
			leader.Restart()
		})
	})
	t.Run("Hung", func(t *testing.T) {
		storetest.WitnessOutlives(t, s, func() {
			leader := ensemble.Leader(t)
			leader.Pause()
			<-time.After(6 * time.Second)
			leader.Resume()
		})
	})
}

func TestWitnessOfAnotherEnsemble(t *testing.T) {
	t.Parallel()
	other := zkservers.Start(t)
	one, another := open(t), newStore(connect(t, 10*time.Second, other.Addr()))
	another.root = one.root
	for _, s := range []*store{one, another} {
		swap(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
	}
	storetest.WitnessOfAnother(t, one, another)
}

// A session of the engine's own needs the credentials of the connection, where znodes have an ACL.
func TestWitnessWithCredentials(t *testing.T) {
	t.Parallel()
	secret := []byte("user:secret")
	acl := WithACL(zk.DigestACL(zk.PermAll, "user", "secret")...)
	for _, c := range []struct {
		name string
		opts []Option
		want error
	}{
		{"without", []Option{acl}, engine.ErrDenied},
		{"with", []Option{acl, WithAuth("digest", secret)}, nil},
		{"auth", []Option{WithACL(zk.AuthACL(zk.PermAll)...), WithAuth("digest", secret)}, nil},
	} {
		s := open(t, append(c.opts, WithRoot("/witness-"+c.name))...)
		if err := s.conn.AddAuth("digest", secret); err != nil {
			t.Fatal(err)
		}
		swap(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
		name, _, err := s.Witness(t.Context(), "p", time.Minute)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got error %v, want %v", c.name, err, c.want)
		}
		if err != nil {
			continue
		}
		if states, err := s.Witnesses(t.Context(), "p", []string{name}); err != nil || states[0] != cas.WitnessStands {
			t.Errorf("%s: %v, %v", c.name, states, err)
		}
	}
}

// The dialer for sessions of the engine's own is that of WithDialer, and a server that accepts the connection and is silent
// delays the call for no longer than its ctx.
func TestWitnessOfASilentServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := open(t, WithDialer(func(network, _ string, limit time.Duration) (net.Conn, error) {
		return net.DialTimeout(network, silent.Addr().String(), limit)
	}))
	swap(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if name, _, err := s.Witness(ctx, "p", time.Minute); err == nil {
		t.Errorf("a witness %q of a server that does not answer", name)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A dialer that takes its time delays the call for no longer than its ctx, and a connection that comes later is closed.
func TestWitnessEndsWithItsContext(t *testing.T) {
	t.Parallel()
	canceled, closed := make(chan struct{}), make(chan error, 1)
	s := open(t, WithRoot("/slow-dial"), WithDialer(func(string, string, time.Duration) (net.Conn, error) {
		<-canceled
		near, far := net.Pipe()
		go func() {
			_, err := far.Read(make([]byte, 1))
			closed <- err
		}()
		return near, nil
	}))
	swap(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	began := time.Now()
	if name, _, err := s.Witness(ctx, "p", time.Minute); !errors.Is(err, cause) {
		t.Errorf("got %q and error %v, want %v", name, err, cause)
	}
	if took := time.Since(began); took > callTimeout/2 {
		t.Errorf("it took %v", took)
	}
	close(canceled)
	if err := <-closed; !errors.Is(err, io.EOF) {
		t.Errorf("the connection that came later: %v", err)
	}
}

// Anything but a ZooKeeper at the other end is an error.
func TestWitnessOfAForeignServer(t *testing.T) {
	t.Parallel()
	for i, text := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", "\x00\x00\x00\x04abcd", "\x00\x00\x00\x25" + string(make([]byte, 37)), "\x00"} {
		s := open(t, WithRoot("/foreign-"+strconv.Itoa(i)), WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				_, _ = far.Read(make([]byte, 100))
				_, _ = far.Write([]byte(text))
			}()
			return near, nil
		}))
		swap(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
		if name, _, err := s.Witness(t.Context(), "p", time.Minute); err == nil {
			t.Errorf("a witness %q of a server that answers %q", name, text)
		}
	}
}
