// Package nightly plays the second scene of the README under faults: each night one node of a service builds a
// report, and one node pushes it to each user exactly once. Nights take seconds. The nodes are processes; they are
// killed, and paused for longer than their TTL, and the Redis with the locks is killed and restarted with its data.
//
// The gateway, which the nodes push to, records what arrives. A message may arrive twice only if a fault came between
// the message and its mark: a gateway drops such a repetition by its key. Anything else that happens twice, and a night
// that a node calls done although a user has nothing, is a broken promise.
package nightly

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/process"
)

// Kinds of faults.
const (
	kill    = "kill"
	stop    = "pause"
	restart = "restart of the store"
)

// Plan is the size of a run.
type Plan struct {
	Nights int
	Seed   uint64
	Mutex  bool // the nodes use a lock instead of a Job; see the package comment
	Calm   bool // without faults
}

const (
	nodes     = 4
	users     = 60
	nightTime = 2 * time.Second
	nodeTTL   = 500 * time.Millisecond
)

// service is the nodes and the gateway.
type service struct {
	plan  Plan
	rand  *rand.Rand
	store *redistest.Server
	url   string

	live    []*running
	started int

	mu     sync.Mutex
	events []event
	faults []incident
}

// running is a node and its process.
type running struct {
	name string
	cmd  *exec.Cmd
	in   io.Closer
}

// Run plays the nights and judges them.
func Run(t *testing.T, plan Plan) Result {
	stalls := redistest.WatchStalls(t)
	s := &service{plan: plan, rand: rand.New(rand.NewPCG(plan.Seed, 0)), store: redistest.Start(t, redistest.WithAppendOnly())}
	web := httptest.NewServer(http.HandlerFunc(s.receive))
	s.url = web.URL
	defer web.Close()
	defer s.end()
	for range nodes {
		if err := s.start(); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	for i := range plan.Nights {
		night := begin.Truncate(nightTime).Add(time.Duration(i+1) * nightTime)
		time.Sleep(time.Until(night))
		if plan.Calm {
			continue
		}
		s.await(night, s.rand.IntN(users+1))
		if err := s.disturb(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(nightTime)
	if err := s.end(); err != nil {
		t.Errorf("a node: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return judge(s.events, s.faults, users, nodeTTL, stalls.Between)
}

func (s *service) receive(w http.ResponseWriter, r *http.Request) {
	var e event
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.at = time.Now()
	s.events = append(s.events, e)
}

// start starts one node more.
func (s *service) start() error {
	s.started++
	n := node{Name: fmt.Sprint("node-", s.started), Store: s.store.Addr(), Gateway: s.url, Users: users, Night: nightTime, TTL: nodeTTL,
		Mutex: s.plan.Mutex, Late: time.Duration(s.started%nodes) * nightTime / 5}
	cmd, in, out, err := process.StartWorker(nodeEnv, n)
	if err != nil {
		return err
	}
	go io.Copy(io.Discard, out)
	s.live = append(s.live, &running{n.Name, cmd, in})
	return nil
}

// await returns when so many messages of a night were sent, or when the report is begun if there are to be none;
// or after half the night.
func (s *service) await(night time.Time, messages int) {
	what := sent
	if messages == 0 {
		what, messages = building, 1
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for time.Since(night) < nightTime/2 && s.count(what, night) < messages {
		<-tick.C
	}
}

func (s *service) count(what kind, since time.Time) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.events) {
		if e.at.Before(since) {
			break
		}
		if e.Kind == what {
			n++
		}
	}
	return n
}

// within returns a random part of a time.
func (s *service) within(d time.Duration) time.Duration {
	return time.Duration(s.rand.Int64N(int64(d)))
}

// disturb plays one fault. A fault of a node is one of a node that works, if there is one.
func (s *service) disturb() error {
	i := s.atWork()
	p := s.live[i]
	f := incident{node: p.name, from: time.Now()}
	switch f.what = []string{kill, kill, stop, restart}[s.rand.IntN(4)]; f.what {
	case kill:
		if err := p.cmd.Process.Kill(); err != nil {
			return err
		}
		_ = p.cmd.Wait() // it was killed
		f.to = time.Now()
		s.live = slices.Delete(s.live, i, i+1)
		time.Sleep(s.within(nightTime / 10))
		if err := s.start(); err != nil {
			return err
		}
	case stop:
		if err := redistest.Pause(p.cmd.Process); err != nil {
			return err
		}
		time.Sleep(nodeTTL + s.within(nodeTTL))
		if err := redistest.Resume(p.cmd.Process); err != nil {
			return err
		}
		f.to = time.Now()
	case restart:
		f.node = ""
		s.store.Kill()
		time.Sleep(s.within(nodeTTL))
		s.store.Restart()
		f.to = time.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
	return nil
}

// atWork returns the index of the live node that did something last.
func (s *service) atWork() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range slices.Backward(s.events) {
		if i := slices.IndexFunc(s.live, func(p *running) bool { return p.name == e.Node }); i >= 0 {
			return i
		}
	}
	return 0
}

// end ends the nodes and waits for them.
func (s *service) end() error {
	var errs []error
	for _, p := range s.live {
		errs = append(errs, p.in.Close(), p.cmd.Wait())
	}
	s.live = nil
	return errors.Join(errs...)
}
