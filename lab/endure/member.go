package endure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// Catalog has the one subject of this package, for process.Serve: a client that works by itself.
func Catalog() subject.Catalog {
	return subject.Catalog{{ID: subjectID, Title: "Holdfast under a load of its own", Open: func(subject.Setup) (subject.Client, error) {
		logging.Disable() // of what the faults do to connections
		return &member{}, nil
	}}}
}

const subjectID = "holdfast-endure"

// The tasks of a member.
const (
	taskOpen  = "open"  // the client, with settings
	taskBegin = "begin" // the load
	taskRest  = "rest"  // begin nothing, and wait until nothing is under way; returns a Sample
	taskGoOn  = "go on" // after a rest
	taskClose = "close" // end the load and the client; returns a farewell
)

// settings are those of a member.
type settings struct {
	Store      string   `json:"store"`
	URLs       []string `json:"urls"`
	Vault      string   `json:"vault"` // address
	Name       string   `json:"name"`
	Population int      `json:"population"`
	Rate       int      `json:"rate"`
	Seed       uint64   `json:"seed"`
	Profiles   string   `json:"profiles,omitempty"` // see Plan
}

// farewell is what a member reports when its client has closed.
type farewell struct {
	Load Tally    `json:"load"`
	Left []string `json:"left"` // stacks of goroutines
	Open int      `json:"open"` // sockets
	Err  string   `json:"err"`  // of Close
}

// member is a client of Holdfast at work in a process: the one that is measured, or one that comes and goes.
type member struct {
	settings
	engine    engine.Engine
	c, second *holdfast.Client // two clients contend as those of two processes do
	end       func()           // of the engine
	vault     *vault
	steady    *population
	tally     tally

	stop    context.CancelFunc
	pacer   sync.WaitGroup
	running sync.WaitGroup // operations
	inHand  atomic.Int64   // of them
	names   atomic.Uint64

	profiles int // that were written

	mu      sync.Mutex
	resting bool
}

// errTasks: a member is ordered by tasks.
var errTasks = errors.New("a member of an endurance run locks by itself")

// Acquire returns an error: a member works by itself.
func (m *member) Acquire(context.Context, string) (subject.Hold, error) { return nil, errTasks }

// Try returns an error.
func (m *member) Try(context.Context, string) (subject.Hold, error) { return nil, errTasks }

// Close ends what taskClose has not.
func (m *member) Close() error {
	if m.c == nil {
		return nil
	}
	return m.close()
}

// Do implements process.Doer.
func (m *member) Do(_ context.Context, task string, args json.RawMessage) (any, error) {
	switch task {
	case taskOpen:
		if err := json.Unmarshal(args, &m.settings); err != nil {
			return nil, err
		}
		if m.Profiles != "" {
			runtime.MemProfileRate = 1
		}
		return nil, m.open()
	case taskBegin:
		return nil, m.begin()
	case taskRest:
		return m.rest()
	case taskGoOn:
		m.mu.Lock()
		m.resting = false
		m.mu.Unlock()
		return nil, nil
	case taskClose:
		return m.farewell(), nil
	}
	return nil, fmt.Errorf("no task %q", task)
}

// prefix is that of all keys of a run.
const prefix = "endure"

// historyKept is small, so that the history soon has its full length.
const historyKept = 2000

// open makes the clients.
func (m *member) open() (err error) {
	if m.engine, m.end, err = openEngine(m.Store, m.URLs, m.Name); err != nil {
		return err
	}
	if m.c, err = m.client(); err == nil {
		m.second, err = m.client()
	}
	m.vault = openVault(m.Vault, m.Name)
	return err
}

// client makes a client on the engine of the member.
func (m *member) client() (*holdfast.Client, error) {
	return holdfast.New(m.engine, holdfast.WithPrefix(prefix), holdfast.WithName(m.Name), holdfast.WithHistory(historyKept), holdfast.WithHooks(&m.tally))
}

// begin takes the steady leases and starts the load.
func (m *member) begin() error {
	m.steady = newPopulation(m.c, m.Name, m.Population)
	if err := m.steady.fill(); err != nil {
		return err
	}
	life, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.pacer.Go(func() { m.pace(life) })
	return nil
}

// mostAtOnce bounds the operations that are under way.
const mostAtOnce = 64

// pace begins operations at the rate, while the load does not rest.
func (m *member) pace(life context.Context) {
	tick := time.NewTicker(time.Second / time.Duration(m.Rate))
	defer tick.Stop()
	draw := rand.New(rand.NewPCG(m.Seed, 1))
	all := works()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
			w := all[draw.IntN(len(all))]
			m.mu.Lock()
			if !m.resting && m.inHand.Load() < mostAtOnce {
				m.inHand.Add(1)
				m.running.Go(func() { defer m.inHand.Add(-1); m.operate(w) })
			}
			m.mu.Unlock()
		}
	}
}

// operationLimit bounds an operation; one waits for the store during a failover.
const operationLimit = 20 * time.Second

// operate does one operation, on a name that is not used again. The name says when it was made.
func (m *member) operate(w work) {
	ctx, cancel := context.WithTimeout(context.Background(), operationLimit)
	defer cancel()
	name := fmt.Sprintf("%s:%d:%s:%s:%d", freshName, time.Now().Unix(), w.name, m.Name, m.names.Add(1))
	m.tally.note(w.name, w.do(ctx, m, name))
}

// freshName begins the names that are used once.
const freshName = "once"

// settled is how long what the client does in the background may take.
const settled = 20 * time.Second

// rest stops the load, waits until nothing is under way, and measures the process.
func (m *member) rest() (Sample, error) {
	m.mu.Lock()
	m.resting = true
	m.mu.Unlock()
	m.running.Wait()
	if err := m.steady.fill(); err != nil {
		return Sample{}, err
	}
	var s Sample
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	// A history is written after 200 ms; a dead call ends with the read timeout of its connection, after 3 s.
	calm, limit := 0, time.Now().Add(settled)
	for before := 0; calm < 10 && time.Now().Before(limit); <-tick.C {
		s = Sample{}
		s.look(m.c, m.second)
		if s.Leases != m.Population || s.Releases > 0 || s.Lingering > 0 || s.Goroutines != before {
			calm = 0
		} else {
			calm++
		}
		before = s.Goroutines
	}
	s.Unsettled = calm < 10
	s.measure()
	s.Load = m.tally.snapshot()
	return s, m.profile()
}

// profile writes a heap profile, if there is a folder for it.
func (m *member) profile() error {
	if m.Profiles == "" {
		return nil
	}
	m.profiles++
	f, err := os.Create(filepath.Join(m.Profiles, fmt.Sprintf("heap-%03d.pprof", m.profiles)))
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(f), f.Close())
}

// farewell ends the load and the clients, and reports what is left of them.
func (m *member) farewell() farewell {
	var f farewell
	if err := m.close(); err != nil {
		f.Err = err.Error()
	}
	// What reads the tasks is left, and this task, which is its caller.
	f.Left = leaktest.Find("lab/process.serve(", dialling)
	_, f.Open = descriptors()
	f.Load = m.tally.snapshot()
	return f
}

// dialling is on the stack of a goroutine of go-redis that ends with its next try, after Close.
const dialling = "github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial("

func (m *member) close() error {
	if m.stop != nil {
		m.stop()
		m.pacer.Wait()
	}
	m.running.Wait()
	if m.steady != nil {
		m.steady.releaseHalf() // Close releases the other half
	}
	err := errors.Join(m.c.Close(), m.second.Close())
	m.end()
	m.vault.close()
	m.c = nil
	return err
}
