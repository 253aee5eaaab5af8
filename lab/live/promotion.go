package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lab/stores"
)

// promotion is a replica that became a master, whatever the reason.
type promotion struct {
	node     int           // of stores.Replicated.Nodes
	from, at time.Duration // it was a replica at from and a master at at
	known    time.Duration // when clients that looked for the master found it; 0: not until the end of the run
	// had are the leases that it had at at, with their deadlines. A replica may get them with all data at once, without a command.
	had map[leaseKey]time.Duration
	// unread is why had lacks leases: the server did not answer in time.
	unread error
}

const (
	// lookEvery is the pause between two looks at the role of a server.
	lookEvery = 5 * time.Millisecond
	// answers is how long a look waits: a stopped server does not answer.
	answers = 500 * time.Millisecond
	// longestLook is the longest time between two looks at a server after which it is not known what a replica was meanwhile.
	longestLook = time.Second
)

// roles is what the servers of a store with replicas were over the time. The methods of nil are of a store without.
type roles struct {
	run    *run
	server stores.Replicated
	shards map[string][]int // the nodes that may have a resource
	first  []int            // the masters at the start
	end    context.CancelFunc
	looks  sync.WaitGroup

	mu   sync.Mutex
	all  []promotion
	gaps []error // between two looks
}

// watchRoles begins to look at the roles of the servers of a store with replicas.
func (r *run) watchRoles(ctx context.Context) error {
	g := r.stores[0].replicated()
	if g == nil {
		return nil
	}
	own, end := context.WithCancel(ctx)
	o := &roles{run: r, server: g, shards: map[string][]int{}, end: end}
	r.roles = o
	for _, x := range r.p.Resources {
		for _, name := range x.names() {
			var err error
			if o.shards[name], err = g.Shard(name); err != nil {
				return err
			}
		}
	}
	for i, url := range g.Nodes() {
		opts, err := redis.ParseURL(url)
		if err != nil {
			return err
		}
		opts.MaxRetries, opts.ReadTimeout, opts.DialTimeout, opts.PoolSize = -1, answers, answers, 1
		c := redis.NewClient(opts)
		from := r.rec.Now()
		role, err := roleOf(ctx, c)
		for err != nil && ctx.Err() == nil { // the machine is slow
			role, err = roleOf(ctx, c)
		}
		if err != nil {
			_ = c.Close() // the run has failed
			return err
		}
		if role == master {
			o.first = append(o.first, i)
		}
		o.looks.Go(func() {
			defer c.Close()
			o.look(own, c, role, promotion{node: i, from: from})
		})
	}
	return nil
}

// master is the role of one.
const master = "master"

// roleOf returns the role of a server, as ROLE names it.
func roleOf(ctx context.Context, c *redis.Client) (string, error) {
	all, err := c.Do(ctx, "role").Slice()
	if err != nil {
		return "", err
	}
	role, _ := all[0].(string)
	return role, nil
}

// look notes each promotion of a server. The next one is of a server that had a role.
func (o *roles) look(ctx context.Context, c *redis.Client, role string, next promotion) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := o.run.rec.Now()
	saw := func() { // it answered, or nobody looks any more
		at := o.run.rec.Now()
		if role != master && at-last > longestLook {
			o.mu.Lock()
			o.gaps = append(o.gaps, fmt.Errorf("node%d, a replica, did not answer between %v and %v: it may have been promoted", next.node+1, last, at))
			o.mu.Unlock()
		}
		last = at
	}
	defer saw()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		from := o.run.rec.Now()
		now, err := roleOf(ctx, c)
		if err != nil {
			continue
		}
		saw()
		if now == master && role != master {
			next.at = o.run.rec.Now()
			next.had, next.unread = o.leases(ctx, c)
			o.promoted(ctx, next)
		}
		if role = now; role != master {
			next.from = from
		}
	}
}

// leases reads the leases that a server has, as docs/PROTOCOL.md describes the keys. A resource that is not its own is left out:
// in a cluster most are on other servers. The error is of the first that it did not answer for.
func (o *roles) leases(ctx context.Context, c *redis.Client) (map[leaseKey]time.Duration, error) {
	all := map[leaseKey]time.Duration{}
	note := func(resource, holder string, micros float64) {
		if holder != "" && micros > 0 {
			all[leaseKey{resource, strings.TrimPrefix(holder, "!")}] = o.run.rec.At(time.UnixMicro(int64(micros)))
		}
	}
	for _, x := range o.run.p.Resources {
		for _, name := range x.names() {
			core := o.run.prefix + ":{" + name + "}"
			fields, err := c.HMGet(ctx, core, "holder", "deadline").Result()
			if redis.HasErrorPrefix(err, "MOVED") {
				continue
			}
			if err != nil {
				return all, fmt.Errorf("reading %s: %w", name, err)
			}
			holder, _ := fields[0].(string)
			text, _ := fields[1].(string)
			micros, _ := strconv.ParseFloat(text, 64) // a kind, if nobody holds it
			note(name, holder, micros)
			line, err := c.ZRangeWithScores(ctx, core+":line", 0, -1).Result()
			if err != nil {
				return all, fmt.Errorf("reading the line of %s: %w", name, err)
			}
			for _, z := range line {
				if id, ok := strings.CutPrefix(z.Member.(string), "h"); ok {
					note(name, id, z.Score)
				}
			}
		}
	}
	return all, nil
}

// promoted notes a promotion, and when clients find the new master.
func (o *roles) promoted(ctx context.Context, p promotion) {
	o.mu.Lock()
	n := len(o.all)
	o.all = append(o.all, p)
	o.mu.Unlock()
	o.looks.Go(func() {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for !o.server.Leads(p.node) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.all[n].known = o.run.rec.Now()
	})
}

// stop ends the looks.
func (o *roles) stop() {
	if o != nil {
		o.end()
		o.looks.Wait()
	}
}

// promotions returns those that were seen so far, in their order.
func (o *roles) promotions() []promotion {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Clone(o.all)
	slices.SortFunc(all, func(a, b promotion) int { return int(a.at - b.at) })
	return all
}

// unsure returns why it is not known what the servers were, or had when they were promoted; nil: it is. The run shows nothing then.
func (o *roles) unsure() (err error) {
	for _, p := range o.promotions() {
		if p.unread != nil {
			err = errors.Join(err, fmt.Errorf("the leases of node%d, promoted at %v, are not known: %w", p.node+1, p.at, p.unread))
		}
	}
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		err = errors.Join(err, errors.Join(o.gaps...))
	}
	return err
}

// over returns the promotions of servers that may have a resource.
func (o *roles) over(resource string) []promotion {
	return slices.DeleteFunc(o.promotions(), func(p promotion) bool { return !slices.Contains(o.shards[resource], p.node) })
}
