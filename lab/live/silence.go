package live

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// A client that closes while a node of its quorum has not answered for 300 ms may leave
// its turn there, which ends with the life of a waiter, or a lease, which ends with its TTL (docs/GUARANTEES.md, "No
// starvation"). So each worker measures, with probes of its own, how long each node was
// silent while its client closed.
const (
	// silentFor is the measured silence from which a node counts as silent: the 300 ms
	// of the promise less what lies between two probes on a loaded machine.
	silentFor = 250 * time.Millisecond
	// waiterLife is how long the turn of a client that is gone stays in a node's line.
	waiterLife = 3 * time.Second
	// conditions is in the names of the resources on which those who wait for a condition have leases.
	conditions = "#cond:"
)

// watchSilences begins to measure the nodes.
func watchSilences(urls []string) (all []*redistest.Silence, err error) {
	for _, url := range urls {
		opts, err := redis.ParseURL(url)
		if err != nil {
			stopSilences(all, time.Time{})
			return nil, err
		}
		opts.DialTimeout, opts.ReadTimeout = time.Second, time.Second
		all = append(all, redistest.WatchSilence(opts))
	}
	return all, nil
}

// stopSilences returns the longest silence of each node since an instant.
func stopSilences(all []*redistest.Silence, since time.Time) (longest []time.Duration) {
	for _, s := range all {
		longest = append(longest, s.Since(since))
		s.Stop()
	}
	return longest
}

// remnant is a lease or a waiter of a client that has closed.
type leftBehind struct {
	node    int
	client  string
	waiting bool
	woken   bool   // it is a lease of a waiter for a condition, which the process that signals ends
	token   uint64 // of a lease
	text    string
}

// mayStay returns how long after Close the remnant may still be in its node. A node that was rolled back has waiters again
// that had left, and may grant them leases, which nobody uses, one after the other. A node that was silent may get a request
// after Close, and then has the waiter, or the lease. A process that is killed while it signals may have reached some nodes only.
// A waiter for a condition that was given up while the store was down for longer than its lease is still there afterwards, and
// on a store whose clients count how long they have seen a lease it lasts from the first look on.
func (r *run) mayStay(x leftBehind) time.Duration {
	if len(r.roles.promotions()) > 0 { // neither releases nor places in the queue survive each failover
		return r.longestTTL() + waiterLife + tidy
	}
	if len(r.stores[x.node].rolls) > 0 {
		return waiterLife + r.p.TTL + tidy
	}
	if x.woken && r.stores[x.node].again && r.p.store().Clocks == stores.OfClients {
		return waiterLife + tidy
	}
	cut := x.woken && slices.ContainsFunc(r.workers, func(c *workerProcess) bool { return c.died > 0 }) // in the middle of its signal
	if len(r.stores) == 1 || r.silence(x) < silentFor && !cut {
		return tidy
	}
	if x.waiting {
		return waiterLife + tidy
	}
	return r.longestTTL() + tidy
}

// longestTTL returns the longest TTL of a lease of the run: that of Once, if there is one, and of the waiters of a Cond.
func (r *run) longestTTL() time.Duration {
	if slices.ContainsFunc(r.p.Resources, func(r Resource) bool { return r.Kind == Slot }) {
		return holdfast.DefaultTTL
	}
	return max(r.p.TTL, waiterLife)
}

// silence returns for how long a node was silent while the client of a remnant closed: 0 if that was not measured, as on
// a single node.
func (r *run) silence(x leftBehind) time.Duration {
	for _, c := range r.workers {
		if c.name == x.client && x.node < len(c.silent) {
			return c.silent[x.node]
		}
	}
	return 0
}
