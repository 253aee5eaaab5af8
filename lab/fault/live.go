package fault

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Process is a client in its own process.
type Process interface {
	Pause() error  // SIGSTOP; the process has stopped when Pause returns
	Resume() error // SIGCONT
	Kill() error   // SIGKILL; the process has ended when Kill returns
}

// Store is a server that can be killed, stopped and started again.
// *redistest.Server is one.
type Store interface {
	Kill()
	Pause()
	Resume()
	Restart()
}

// Replicator is a Store with replicas.
type Replicator interface {
	Store
	HoldBack() error // stops the replication
	LetOn() error    // continues it
}

// Writer is a Store with a disk.
type Writer interface {
	Store
	SlowDown(by time.Duration) error // makes each write to the disk take so much longer
	SpeedUp() error                  // ends that
}

// Pools is the connection pools of a client.
type Pools interface {
	Exhaust() error // takes all connections
	Relieve() error // returns them to the pools
}

// Copier copies the data of a server. Both methods return false if the fault comes too late to happen, on a slow machine.
type Copier interface {
	// Copy copies the data of a server that runs. The latest copy counts.
	Copy() (copied bool, err error)
	// Restore kills the server and replaces its data by the copy: what it wrote since is lost.
	Restore() (restored bool, err error)
}

// Live is a world of real processes and servers, by their names in faults. Fill it
// before the run starts.
type Live struct {
	Processes map[string]Process
	Clocks    map[string]func(time.Duration) error // sets a client's clock forward
	Stores    map[string]Store
	Links     map[string]*redistest.Proxy
	// Empty removes the data of a killed server from disk.
	Empty map[string]func() error
	// Copies make and restore copies of the data of servers.
	Copies map[string]Copier
	// Failovers promote the replica of a master, which has been killed or lives.
	Failovers map[string]func() error
	Pools     map[string]Pools
	// Operator breaks a lease of a resource, as soon as one exists, by Break or
	// ForceBreak. The channel is closed when the lease is broken.
	Operator func(resource string, by Kind) <-chan struct{}
}

// Begin begins a fault.
func (l *Live) Begin(f Fault) (<-chan struct{}, error) {
	switch f.Kind {
	case Delay, Cut, Blackhole, Deafen, Mute, LoseReply:
		return l.onLink(f)
	case StepClock:
		step, ok := l.Clocks[f.Target]
		if !ok {
			return nil, fmt.Errorf("%q has no clock of its own", f.Target)
		}
		return nil, step(f.By)
	case Exhaust:
		pools, ok := l.Pools[f.Target]
		if !ok {
			return nil, fmt.Errorf("%q has no pools", f.Target)
		}
		return nil, pools.Exhaust()
	case Break, ForceBreak:
		if l.Operator == nil {
			return nil, fmt.Errorf("there is no operator for %q", f.Target)
		}
		return l.Operator(f.Target, f.Kind), nil
	}
	if p, ok := l.Processes[f.Target]; ok {
		return nil, onProcess(p, f)
	}
	if f.Kind == Copy || f.Kind == RollBack {
		return l.onCopy(f)
	}
	return nil, l.onStore(f)
}

func (l *Live) onLink(f Fault) (<-chan struct{}, error) {
	link, ok := l.Links[f.Target]
	if !ok {
		return nil, fmt.Errorf("no connection %q", f.Target)
	}
	switch f.Kind {
	case Delay:
		link.Delay(f.By)
	case Cut:
		link.Refuse()
		link.Cut()
	case Blackhole:
		link.Blackhole()
	case Deafen:
		link.Blackhole(redistest.ToClient)
	case Mute:
		link.Blackhole(redistest.ToServer)
	case LoseReply:
		return link.LoseReply(f.Match).Hit(), nil
	}
	return nil, nil
}

func onProcess(p Process, f Fault) error {
	switch f.Kind {
	case Kill:
		return p.Kill()
	case Pause:
		return p.Pause()
	}
	return fmt.Errorf("%s does not happen to a client", f.Kind)
}

func (l *Live) onStore(f Fault) error {
	s, ok := l.Stores[f.Target]
	if !ok {
		return fmt.Errorf("nobody is called %q", f.Target)
	}
	switch f.Kind {
	case Kill:
		s.Kill()
	case Pause:
		s.Pause()
	case Restart:
		s.Restart()
	case RestartEmpty:
		s.Kill()
		if empty := l.Empty[f.Target]; empty != nil {
			if err := empty(); err != nil {
				return err
			}
		}
		s.Restart()
	case Failover, Promote:
		promote, ok := l.Failovers[f.Target]
		if !ok {
			return fmt.Errorf("%q has no replica", f.Target)
		}
		if f.Kind == Failover {
			s.Kill()
		}
		return promote()
	case HoldBack:
		r, ok := s.(Replicator)
		if !ok {
			return fmt.Errorf("%q has no replica", f.Target)
		}
		return r.HoldBack()
	case SlowDisk:
		w, ok := s.(Writer)
		if !ok {
			return fmt.Errorf("the disk of %q is not known", f.Target)
		}
		return w.SlowDown(f.By)
	}
	return nil
}

// onCopy copies a store, or restores it and starts it again. If that comes too late, the fault is never hit.
func (l *Live) onCopy(f Fault) (<-chan struct{}, error) {
	s, known := l.Stores[f.Target]
	c, ok := l.Copies[f.Target]
	if !ok || !known {
		return nil, fmt.Errorf("%q makes no copies of its data", f.Target)
	}
	do := c.Copy
	if f.Kind == RollBack {
		do = c.Restore
	}
	done, err := do()
	if f.Kind == RollBack && err == nil {
		s.Restart()
	}
	if err == nil && !done {
		return make(chan struct{}), nil
	}
	return nil, err
}

// End ends a fault whose kind can end.
func (l *Live) End(f Fault) error {
	switch f.Kind {
	case Pause:
		if p, ok := l.Processes[f.Target]; ok {
			return p.Resume()
		}
		if s, ok := l.Stores[f.Target]; ok {
			s.Resume()
		}
	case Delay:
		l.Links[f.Target].Delay(0)
	case Cut:
		l.Links[f.Target].Accept()
	case Blackhole, Deafen, Mute:
		l.Links[f.Target].Heal()
	case Exhaust:
		return l.Pools[f.Target].Relieve()
	case HoldBack:
		if r, ok := l.Stores[f.Target].(Replicator); ok {
			return r.LetOn()
		}
	case SlowDisk:
		if w, ok := l.Stores[f.Target].(Writer); ok {
			return w.SpeedUp()
		}
	}
	return nil
}
