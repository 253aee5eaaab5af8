package demo

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	// users is the number of users to which the report is pushed.
	users = 60
	// pushTTL is longer than the outage, so that a push during the outage is marked as
	// done after it.
	pushTTL = 2 * time.Second
	// outage is how long the store is down.
	outage = 700 * time.Millisecond
	// firstKill and firstOutage are the numbers of pushes after which the faults begin.
	firstKill, firstOutage = 15, 35
)

// Push is the result of one act of the second scene. All figures are measured.
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

// pushRun is a running act of the second scene. One goroutine uses it.
type pushRun struct {
	Push
	player   *Player
	nodes    *nodeProcesses
	began    time.Time
	phones   [users + 1]int // pushes by user
	pushes   int
	trapped  bool
	victim   int // the user on whom the killed node worked
	killedAt time.Time
	down     chan error // receives the result of Outage
	downAt   time.Time
}

// playPushes runs the second scene.
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
			nodes = append(nodes, p.node(config{Name: fmt.Sprintf("%s-%d", job, i+1), Locked: once, Part: job}))
		}
	}
	r := &pushRun{Push: Push{Name: name, Nodes: len(nodes), Users: users}, player: p, down: make(chan error, 1)}
	var err error
	if r.nodes, err = startNodes(nodes); err != nil {
		return r.Push, err
	}
	defer r.nodes.stop()
	if err := r.nodes.awaitReady(ctx); err != nil {
		return r.Push, err
	}
	r.began = time.Now()
	if err := r.nodes.begin(); err != nil {
		return r.Push, err
	}
	err = r.watch(ctx, once)
	r.Took = time.Since(r.began)
	r.Seconds = r.Took.Seconds()
	r.count()
	return r.Push, err
}

// watch follows the act until every node has ended, and injects the faults.
func (r *pushRun) watch(ctx context.Context, faults bool) error {
	for ended := 0; ended < len(r.nodes.members); {
		select {
		case h := <-r.nodes.reports:
			if h.done {
				ended++
				continue
			}
			if err := r.take(ctx, h, faults); err != nil {
				return err
			}
		case err := <-r.down:
			if err != nil {
				return err
			}
			r.Outage = time.Since(r.downAt)
			r.say("the store is back after %s, with its data", seconds(r.Outage))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if faults && (!r.Killed || r.player.Outage != nil && r.Outage == 0) {
		return errors.New("all was pushed before the faults were played")
	}
	return nil
}

func (r *pushRun) take(ctx context.Context, h nodeReport, faults bool) error {
	switch h.Kind {
	case built:
		r.Reports++
		r.say("%s has built the report", h.from.name)
	case pushed:
		return r.pushed(ctx, h, faults)
	case midWork:
		return r.kill(h)
	case failed:
		return nodeError(h)
	}
	return nil
}

// pushed counts a push and injects the faults that are due.
func (r *pushRun) pushed(ctx context.Context, h nodeReport, faults bool) error {
	r.phones[h.User]++
	r.pushes++
	if h.User == r.victim && r.Takeover == 0 {
		r.Takeover = time.Since(r.killedAt)
		r.say("%s pushed to user %d, %s after the kill, when the TTL of %s had run out", h.from.name, h.User, seconds(r.Takeover), seconds(pushTTL))
	}
	switch {
	case !faults:
	case r.pushes >= firstKill && !r.trapped:
		r.trapped = true
		return r.nodes.members[nodesEach].send(lineTrap) // the first push node
	case r.Takeover > 0 && r.pushes >= firstOutage && r.downAt.IsZero() && r.player.Outage != nil:
		r.downAt = time.Now()
		r.say("the store is down")
		go func() { r.down <- r.player.Outage(ctx, outage) }()
	}
	return nil
}

// kill kills the node that is about to push.
func (r *pushRun) kill(h nodeReport) error {
	r.Killed, r.victim, r.killedAt = true, h.User, time.Now()
	r.say("%s is about to push to user %d: kill -9", h.from.name, h.User)
	return h.from.signal(syscall.SIGKILL)
}

// count adds up the pushes by user.
func (r *pushRun) count() {
	for _, n := range r.phones[1:] {
		switch {
		case n == 0:
			r.Missed++
		case n == 1:
			r.Once++
		default:
			r.Again++
		}
	}
}

func (r *pushRun) say(format string, args ...any) {
	r.player.screen.note(time.Since(r.began), format, args...)
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
