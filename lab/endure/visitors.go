package endure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// visitors are processes that come, work, and go.
type visitors struct {
	settings settings // of each, but for the name and the seed
	fail     func(format string, args ...any)
	stop     context.CancelFunc
	running  sync.WaitGroup

	mu    sync.Mutex
	ends  map[visitEnd]int
	tally Tally // of those that closed
}

// visitEnd is how a visitor goes.
type visitEnd string

// The ends.
const (
	killed        visitEnd = "killed"
	closed        visitEnd = "closed"
	stoppedClosed visitEnd = "stopped past its TTL, then closed"
	stoppedKilled visitEnd = "stopped, then killed"
)

func visitEnds() []visitEnd { return []visitEnd{killed, closed, stoppedClosed, stoppedKilled} }

// Sizes of visits.
const (
	visitRate  = 20 // operations that a visitor begins in a second
	lanes      = 2  // visitors at a time
	visitLeast = time.Second
	visitMost  = 4 * time.Second
)

// startVisitors lets processes come and go, lanes of them at a time, until close.
func startVisitors(s settings, fail func(format string, args ...any)) *visitors {
	ctx, stop := context.WithCancel(context.Background())
	v := &visitors{settings: s, fail: fail, stop: stop, ends: map[visitEnd]int{}}
	for lane := range lanes {
		v.running.Go(func() {
			draw := rand.New(rand.NewPCG(s.Seed, uint64(lane+2)))
			for n := 0; ctx.Err() == nil; n++ {
				end := visitEnds()[(n+2*lane)%len(visitEnds())]
				if err := v.visit(ctx, fmt.Sprintf("%s%d-%d", visitorName, lane, n), end, draw); err != nil && ctx.Err() == nil {
					fail("visitor %d of lane %d, to be %s: %v", n, lane, end, err)
					return
				}
			}
		})
	}
	return v
}

// visit is the life of one process.
func (v *visitors) visit(ctx context.Context, name string, end visitEnd, draw *rand.Rand) error {
	s := v.settings
	s.Name, s.Seed = name, draw.Uint64()
	p, err := startMember(ctx, s)
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := p.Do(ctx, taskBegin, nil, nil); err != nil {
		return err
	}
	if !elapse(ctx, visitLeast+time.Duration(draw.Int64N(int64(visitMost-visitLeast)))) {
		end = closed // the run is over
	}
	if end == stoppedClosed || end == stoppedKilled {
		if err := p.Pause(); err != nil {
			return err
		}
		elapse(ctx, ttl*3/2)
	}
	if end == stoppedClosed {
		if err := p.Resume(); err != nil {
			return err
		}
		elapse(ctx, time.Second) // it learns what it has lost
	}
	if end == closed || end == stoppedClosed {
		if err := v.bye(p, name); err != nil {
			return err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ends[end]++
	return nil
}

// startMember starts a process with a member.
func startMember(ctx context.Context, s settings) (*process.Process, error) {
	p, err := process.Start()
	if err != nil {
		return nil, err
	}
	_, err = p.Open(ctx, process.Spec{Subject: subjectID, Client: s.Name}, nil, nil)
	if err == nil {
		err = p.Do(ctx, taskOpen, s, nil)
	}
	if err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// bye closes a visitor, which must leave nothing.
func (v *visitors) bye(p *process.Process, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	var f farewell
	if err := p.Do(ctx, taskClose, nil, &f); err != nil {
		return err
	}
	f.check(name, v.fail)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tally = v.tally.add(f.Load)
	return nil
}

// endLimit bounds the end of a member: its operations, Close, and goroutines that end by a timeout.
const endLimit = 2 * time.Minute

// check complains of what a member has left in its process.
func (f farewell) check(name string, fail func(format string, args ...any)) {
	if f.Err != "" {
		fail("Close of %s: %s", name, f.Err)
	}
	if len(f.Left) > 0 {
		fail("%s has %d goroutines after Close, such as\n%s", name, len(f.Left), f.Left[0])
	}
	if f.Open > 0 {
		fail("%s has %d open sockets after Close", name, f.Open)
	}
	for _, wrong := range f.Load.Wrong {
		fail("%s: %s", name, wrong)
	}
}

// close lets no more visitors come, and waits until the last one has gone.
func (v *visitors) close() {
	v.stop()
	v.running.Wait()
}

// gone returns how many visitors have gone.
func (v *visitors) gone() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range v.ends {
		n += k
	}
	return n
}

// elapse waits, and reports whether ctx has not ended.
func elapse(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var _ process.Doer = (*member)(nil)
var _ subject.Client = (*member)(nil)
