package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Act is the result of one act. All figures are measured.
type Act struct {
	Name     string        `json:"name"`
	Locked   bool          `json:"locked"`
	Nodes    int           `json:"nodes"`
	Stock    int           `json:"stock"` // units put on sale
	Sold     int           `json:"sold"`
	Left     int           `json:"left"`
	Refused  int           `json:"late_writes_refused"`
	Took     time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
	Takeover time.Duration `json:"-"` // from the kill of a holder to the next grant
	Paused   time.Duration `json:"-"` // how long another holder was stopped
	Knew     bool          `json:"-"` // the lease of the resumed holder reported that it was lost
}

// Oversold returns how many more units were sold than were on sale.
func (a Act) Oversold() int { return a.Sold - a.Stock }

// stage is a running act. One goroutine uses it.
type stage struct {
	Act
	stock  *stock
	nodes  *nodeProcesses
	screen *screen
	faults *faultInjector // nil: no faults
	sales  int            // reported so far
	began  time.Time
}

// play runs one act with new processes and returns its result.
func (p *Player) play(ctx context.Context, name string, locked, faults bool, units int) (Act, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the act took more than %v", limit))
	defer cancel()
	s := &stage{
		Act:   Act{Name: name, Locked: locked, Nodes: len(services) * nodesEach, Stock: units},
		stock: newStock(p.data.Client(), p.prefix), screen: p.screen,
	}
	if err := s.stock.fill(ctx, units); err != nil {
		return s.Act, err
	}
	var err error
	if s.nodes, err = startNodes(p.sellers(locked)); err != nil {
		return s.Act, err
	}
	defer s.nodes.stop()
	if err := s.nodes.awaitReady(ctx); err != nil {
		return s.Act, err
	}
	if faults {
		s.faults = newFaultInjector(s)
	}
	s.began = time.Now()
	if err := s.nodes.begin(); err != nil {
		return s.Act, err
	}
	if err := s.watch(ctx); err != nil {
		return s.Act, err
	}
	s.Took = time.Since(s.began)
	s.Seconds = s.Took.Seconds()
	s.Left, s.Sold, err = s.stock.count(ctx)
	s.screen.clear()
	return s.Act, err
}

// sellers are the nodes of the first scene.
func (p *Player) sellers(locked bool) []config {
	var nodes []config
	for _, service := range services {
		for i := range nodesEach {
			nodes = append(nodes, p.node(config{Name: fmt.Sprintf("%s-%d", service, i+1), Locked: locked}))
		}
	}
	return nodes
}

// awaitReady waits until every node is connected, so that all start at once.
func (c *nodeProcesses) awaitReady(ctx context.Context) error {
	for range c.members {
		select {
		case h := <-c.reports:
			if h.Kind != ready {
				return nodeError(h)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// watch follows the act until every node has ended.
func (s *stage) watch(ctx context.Context) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for ended := 0; ended < len(s.nodes.members); {
		select {
		case h := <-s.nodes.reports:
			if h.done {
				ended++
				continue
			}
			if err := s.take(h); err != nil {
				return err
			}
		case <-ticker.C:
			s.screen.progress(s.Name, s.sales, s.Stock)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if s.faults != nil {
		return s.faults.complete()
	}
	return nil
}

// take counts a report of a node and gives it to the fault injector.
func (s *stage) take(h nodeReport) error {
	switch h.Kind {
	case sold:
		s.sales++
	case refused:
		s.Refused++
	case failed:
		return nodeError(h)
	}
	if s.faults != nil {
		return s.faults.observe(h)
	}
	return nil
}

func nodeError(h nodeReport) error {
	if h.done {
		return fmt.Errorf("node %s ended before the act began", h.from.name)
	}
	if h.Text == "" {
		return fmt.Errorf("node %s reported %q out of turn", h.from.name, h.Kind)
	}
	return errors.New("node " + h.from.name + ": " + h.Text)
}
