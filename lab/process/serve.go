package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lab/subject"
)

// Env in the environment makes a program that calls Serve first a client process.
const Env = "HOLDFAST_LAB_CLIENT"

// Serve turns the program into a client process if it was started as one, and
// then returns true when its input has ended. Call it first in main or TestMain.
// The catalog has the locks that clients may be of.
func Serve(catalog subject.Catalog) bool {
	if os.Getenv(Env) == "" {
		return false
	}
	serve(catalog, os.Stdin, os.Stdout)
	return true
}

// server is the inside of a client process.
type server struct {
	catalog subject.Catalog

	write sync.Mutex // of lines
	out   *json.Encoder

	mu      sync.Mutex
	client  subject.Client
	wall    *wall         // nil until a client may step it
	stepped time.Duration // what wall shows too much
	nodes   []*redis.Client
	holds   map[uint64]subject.Hold
	ends    []context.CancelCauseFunc // of the contexts of holds
	running map[uint64]context.CancelCauseFunc
	points  map[uint64]chan error
	last    uint64 // point
}

func serve(catalog subject.Catalog, in io.Reader, out io.Writer) {
	s := &server{catalog: catalog, out: json.NewEncoder(out), holds: map[uint64]subject.Hold{},
		running: map[uint64]context.CancelCauseFunc{}, points: map[uint64]chan error{}}
	ReadLines(in, s.take)
}

// take starts what an order requests.
func (s *server) take(o order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o.Call {
	case callCancel:
		if cancel := s.running[o.ID]; cancel != nil {
			cancel(context.Canceled)
		}
	case callGo:
		if wait := s.points[o.ID]; wait != nil {
			wait <- o.Err.receive()
			delete(s.points, o.ID)
		}
	default:
		ctx, cancel := context.WithCancelCause(context.Background())
		s.running[o.ID] = cancel
		go s.run(ctx, o)
	}
}

func (s *server) run(ctx context.Context, o order) {
	r := s.do(ctx, o)
	r.ID = o.ID
	s.mu.Lock()
	s.running[o.ID](nil)
	delete(s.running, o.ID)
	s.mu.Unlock()
	s.send(r)
}

// do answers one order.
func (s *server) do(ctx context.Context, o order) report {
	switch o.Call {
	case callOpen:
		return report{Err: send(s.open(*o.Spec))}
	case callClose:
		return report{Err: send(s.close())}
	case callStep:
		return report{Err: send(s.step(o.By))}
	case callAcquire, callTry:
		return s.acquire(ctx, o)
	case callTask:
		return s.task(ctx, o)
	}
	s.mu.Lock()
	h := s.holds[o.Hold]
	s.mu.Unlock()
	if h == nil {
		return report{Err: send(errors.New("no such hold"))}
	}
	switch o.Call {
	case callErr:
		return report{Err: send(h.Err()), Until: s.real(h.Until())}
	case callUntil:
		return report{Until: s.real(h.Until())}
	case callRenew:
		err := h.Renew(ctx)
		return report{Err: send(err), Until: s.real(h.Until())}
	case callRelease:
		return report{Err: send(h.Release(ctx))}
	}
	return report{Err: send(errors.New("unknown call " + o.Call))}
}

func (s *server) acquire(ctx context.Context, o order) report {
	s.mu.Lock()
	c, outer := s.client, s.holds[o.Hold]
	s.mu.Unlock()
	if c == nil {
		return report{Err: send(errors.New("no client"))}
	}
	// Once it is held, the lock outlives the call, and so must its context.
	whole, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	inner := whole
	if outer != nil {
		inner = outer.Within(whole)
	}
	get := c.Acquire
	if o.Call == callTry {
		get = c.Try
	}
	h, err := get(inner, o.Resource)
	if err != nil {
		cancel(nil)
		return report{Err: send(err)}
	}
	s.mu.Lock()
	s.holds[o.ID] = h
	s.ends = append(s.ends, cancel)
	s.mu.Unlock()
	lost := h.Lost()
	if lost != nil {
		go func() {
			<-lost
			s.send(report{ID: o.ID, Lost: true})
		}()
	}
	return report{Token: h.Token(), Until: s.real(h.Until()), ReportsLoss: lost != nil}
}

func (s *server) open(spec Spec) error {
	if err := s.close(); err != nil {
		return err
	}
	kind, err := s.catalog.Find(spec.Subject)
	if err != nil {
		return err
	}
	if err := s.reset(spec.Steps); err != nil {
		return err
	}
	setup := subject.Setup{Client: spec.Client, TTL: spec.TTL, Retry: spec.Retry}
	for _, addr := range spec.Nodes {
		setup.Nodes = append(setup.Nodes, redis.NewClient(subject.Connect(addr)))
	}
	if spec.Points {
		setup.Point = s.point
	}
	if kind.Traits.Keeps {
		setup.Renewed = func(r subject.Renewal) {
			r.Until = s.real(r.Until)
			s.send(report{Renewed: &r})
		}
	}
	c, err := kind.Open(setup)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client, s.nodes = c, setup.Nodes
	return err
}

// reset makes the wall clock right, and able to step if need be.
func (s *server) reset(steps bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wall == nil && steps {
		w, err := openWall()
		if err != nil {
			return fmt.Errorf("wall clock: %w", err)
		}
		s.wall = w
	}
	s.stepped = 0
	if s.wall == nil {
		return nil
	}
	return s.wall.set(0)
}

// step sets the wall clock forward by d.
func (s *server) step(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wall == nil {
		return errors.New("this client's clock cannot be stepped: its Spec does not say so")
	}
	s.stepped += d
	return s.wall.set(s.stepped)
}

// real is an instant of this process by the machine's clock: the clocks of the
// lab know nothing of steps.
func (s *server) real(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return now.Round(0).Add(t.Sub(now) - s.stepped)
}

// close ends the present client.
func (s *server) close() error {
	s.mu.Lock()
	c, nodes, ends := s.client, s.nodes, s.ends
	s.client, s.nodes, s.ends = nil, nil, nil
	s.holds = map[uint64]subject.Hold{}
	s.mu.Unlock()
	var err error
	if c != nil {
		err = c.Close()
	}
	for _, node := range nodes {
		_ = node.Close() // what it held is gone with the client
	}
	for _, end := range ends {
		end(nil)
	}
	return err
}

// point reports a point to the parent and waits for the answer.
func (s *server) point(ctx context.Context, step string) error {
	s.mu.Lock()
	s.last++
	id, wait := s.last, make(chan error, 1)
	s.points[id] = wait
	s.mu.Unlock()
	s.send(report{ID: id, Point: step})
	select {
	case err := <-wait:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send writes one line. If the lab reads no more, the input will end too.
func (s *server) send(r report) {
	s.write.Lock()
	defer s.write.Unlock()
	_ = s.out.Encode(r)
}
