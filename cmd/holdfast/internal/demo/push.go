package demo

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	// users is how many users the report is pushed to.
	users = 60
	// pushTTL is longer than the outage: a push that is done while the store is
	// down is noted when it is back.
	pushTTL = 2 * time.Second
	// outage is how long the store is down.
	outage = 700 * time.Millisecond
	// firstKill and firstOutage are the numbers of pushes after which the faults come.
	firstKill, firstOutage = 15, 35
)

// Push is the result of one act of the scene of report and push. All figures are
// measured.
type Push struct {
	Name     string        `json:"name"`
	Nodes    int           `json:"nodes"`
	Reports  int           `json:"reports"` // built
	Users    int           `json:"users"`
	Once     int           `json:"pushed_once"`
	Again    int           `json:"pushed_twice_or_more"`
	Missed   int           `json:"not_pushed"`
	Took     time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
	Killed   bool          `json:"-"`
	Takeover time.Duration `json:"-"` // from the kill to the push of the same user by another node
	Outage   time.Duration `json:"-"` // 0: there was none
}

// morning is one act while it plays; one goroutine.
type morning struct {
	Push
	player   *Player
	nodes    *nodeProcesses
	began    time.Time
	phones   [users + 1]int // pushes by user
	pushes   int
	trapped  bool
	victim   int // the user on whom the killed node worked
	killedAt time.Time
	down     chan error // the end of the outage
	downAt   time.Time
}

// playPushes plays the second scene.
func (p *Player) playPushes(ctx context.Context) error {
	for _, act := range []struct {
		name string
		once bool
	}{{"a lock alone", false}, {"once, one node killed", true}} {
		if act.once && p.Outage != nil {
			act.name += ", store down"
		}
		push, err := p.push(ctx, act.name, act.once)
		if err != nil {
			return err
		}
		p.Pushes = append(p.Pushes, push)
	}
	return nil
}

func (p *Player) push(ctx context.Context, name string, once bool) (Push, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the act took more than %v", limit))
	defer cancel()
	var nodes []config
	for _, job := range []part{reporter, pusher} {
		for i := range nodesEach {
			nodes = append(nodes, config{Name: fmt.Sprintf("%s-%d", job, i+1), Store: p.url, Prefix: p.prefix, Locked: once, Part: job})
		}
	}
	m := &morning{Push: Push{Name: name, Nodes: len(nodes), Users: users}, player: p, down: make(chan error, 1)}
	var err error
	if m.nodes, err = startNodes(nodes); err != nil {
		return m.Push, err
	}
	defer m.nodes.stop()
	if err := m.nodes.awaitReady(ctx); err != nil {
		return m.Push, err
	}
	m.began = time.Now()
	if err := m.nodes.begin(); err != nil {
		return m.Push, err
	}
	err = m.watch(ctx, once)
	m.Took = time.Since(m.began)
	m.Seconds = m.Took.Seconds()
	m.count()
	return m.Push, err
}

// watch follows the act until every node has ended, and injects the faults.
func (m *morning) watch(ctx context.Context, faults bool) error {
	for ended := 0; ended < len(m.nodes.members); {
		select {
		case h := <-m.nodes.reports:
			if h.done {
				ended++
				continue
			}
			if err := m.take(ctx, h, faults); err != nil {
				return err
			}
		case err := <-m.down:
			if err != nil {
				return err
			}
			m.Outage = time.Since(m.downAt)
			m.say("the store is back after %s, with its data", seconds(m.Outage))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if faults && (!m.Killed || m.player.Outage != nil && m.Outage == 0) {
		return errors.New("all was pushed before the faults were played")
	}
	return nil
}

func (m *morning) take(ctx context.Context, h nodeReport, faults bool) error {
	switch h.Kind {
	case built:
		m.Reports++
		m.say("%s has built the report", h.from.name)
	case pushed:
		return m.pushed(ctx, h, faults)
	case midWork:
		return m.kill(h)
	case failed:
		return nodeError(h)
	}
	return nil
}

// pushed counts a push and injects the faults that are due.
func (m *morning) pushed(ctx context.Context, h nodeReport, faults bool) error {
	m.phones[h.User]++
	m.pushes++
	if h.User == m.victim && m.Takeover == 0 {
		m.Takeover = time.Since(m.killedAt)
		m.say("%s pushed to user %d, %s after the kill, when the TTL of %s had run out", h.from.name, h.User, seconds(m.Takeover), seconds(pushTTL))
	}
	switch {
	case !faults:
	case m.pushes >= firstKill && !m.trapped:
		m.trapped = true
		return m.nodes.members[nodesEach].send(lineTrap) // the first push node
	case m.Takeover > 0 && m.pushes >= firstOutage && m.downAt.IsZero() && m.player.Outage != nil:
		m.downAt = time.Now()
		m.say("the store is down")
		go func() { m.down <- m.player.Outage(ctx, outage) }()
	}
	return nil
}

// kill ends the node that is about to push.
func (m *morning) kill(h nodeReport) error {
	m.Killed, m.victim, m.killedAt = true, h.User, time.Now()
	m.say("%s is about to push to user %d: kill -9", h.from.name, h.User)
	return h.from.signal(syscall.SIGKILL)
}

// count adds up the pushes by user.
func (m *morning) count() {
	for _, n := range m.phones[1:] {
		switch {
		case n == 0:
			m.Missed++
		case n == 1:
			m.Once++
		default:
			m.Again++
		}
	}
}

func (m *morning) say(format string, args ...any) {
	m.player.screen.note(time.Since(m.began), format, args...)
}

// pushClaims returns the claims of the second scene.
func pushClaims(acts []Push) []Claim {
	if len(acts) < 2 {
		return nil
	}
	plain, once := acts[0], acts[1]
	claims := []Claim{
		{fmt.Sprintf("a lock alone is not enough: %d reports, and %d users got the push twice", plain.Reports, plain.Again), plain.Reports > 1 && plain.Again > 0},
		{fmt.Sprintf("with a mark that outlives the lease the report is built once: %d by %d nodes", once.Reports, nodesEach), once.Reports == 1},
		{fmt.Sprintf("each user gets exactly one push: %d of %d", once.Once, once.Users), once.Once == once.Users && once.Again == 0},
		{fmt.Sprintf("the killed node's push was made by another, %s after the kill (TTL %s)", seconds(once.Takeover), seconds(pushTTL)), once.Killed && once.Takeover > 0},
	}
	if once.Outage > 0 {
		claims = append(claims, Claim{fmt.Sprintf("the store was down for %s meanwhile, and no push was lost or made twice", seconds(once.Outage)),
			once.Again == 0 && once.Missed == 0})
	}
	return claims
}
