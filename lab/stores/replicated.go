package stores

import "github.com/holdfast-go/holdfast/internal/redistest"

// Replicated is a Server of masters with replicas that can take over: Redis under Sentinels, and a cluster. Kill, Pause and
// Restart are of one master until Settle.
type Replicated interface {
	Server
	// Aim chooses, in place of any, the master that has a resource for the faults until Settle. All servers must answer.
	Aim(resource string) error
	// FailOver promotes a replica of the master, as an operator does: in good order if it lives.
	FailOver() error
	// HoldBack stops the replication from the master, so that only the master has what is written later; LetOn
	// ends that.
	HoldBack()
	LetOn()
	// Settle returns when all servers run and each replica has the data of a master that clients find.
	Settle() error
	// Nodes are the redis:// URLs of all servers with data.
	Nodes() []string
	// Shard returns which of Nodes may have a resource: a master and its replicas.
	Shard(resource string) ([]int, error)
	// Finders are the redis:// URLs of the servers that clients ask for the master before each renewal.
	Finders() []string
	// Leads reports whether clients that look for a master find one of Nodes now.
	Leads(node int) bool
}

// group is a Replicated.
type group struct {
	url      string
	nodes    []*redistest.Server
	master   func(resource string) *redistest.Server // that has a resource
	failOver func(master *redistest.Server)
	settle   func()
	leads    func(*redistest.Server) bool
	shard    func(resource string) []*redistest.Server
	stop     func()
	finders  []string

	target *redistest.Server // of the faults; nil: before the first Aim
	paused bool              // it is stopped
	behind *redistest.Server // its replication is stopped; nil: none
}

// keepsData makes a server keep what it has answered when it is killed, see launchRedis.
func keepsData() []redistest.Option {
	return []redistest.Option{redistest.WithAppendOnly(), redistest.WithArgs("--appendfsync", "no")}
}

// launchSentinel starts a master with two replicas and three Sentinels. Query is that of the URL.
func launchSentinel(query string) func() (Server, error) {
	return func() (Server, error) {
		s, err := redistest.LaunchSentinel(keepsData()...)
		if err != nil {
			return nil, err
		}
		var finders []string
		for _, w := range s.Watchers() {
			finders = append(finders, w.URL())
		}
		return &group{
			finders: finders, url: s.URL() + query, nodes: s.Nodes(), stop: s.Stop, leads: s.Names, settle: s.AwaitHealthy,
			master:   func(string) *redistest.Server { return s.Master() },
			failOver: func(*redistest.Server) { s.FailOver() },
			shard:    func(string) []*redistest.Server { return s.Nodes() },
		}, nil
	}
}

// launchCluster starts three masters with a replica each, which take over after a second of silence.
func launchCluster() (Server, error) {
	c, err := redistest.LaunchReplicatedCluster(append(keepsData(), redistest.WithArgs("--cluster-node-timeout", "1000"))...)
	if err != nil {
		return nil, err
	}
	master := func(resource string) *redistest.Server { return c.MasterOf("{" + resource + "}") }
	return &group{
		url: c.URL(), nodes: c.Nodes(), stop: c.Stop, leads: c.Known, settle: c.AwaitHealthy, master: master,
		failOver: func(m *redistest.Server) { c.FailOver(m) },
		shard: func(resource string) []*redistest.Server {
			m := master(resource)
			return []*redistest.Server{m, c.ReplicaOf(m)}
		},
	}, nil
}

// URL implements Server.
func (g *group) URL() string { return g.url }

// Kill implements Server.
func (g *group) Kill() { g.target.Kill() }

// Pause implements Server.
func (g *group) Pause() {
	g.target.Pause()
	g.paused = true
}

// Resume implements Server.
func (g *group) Resume() {
	g.target.Resume()
	g.paused = false
}

// Restart implements Server.
func (g *group) Restart() { g.target.Restart() }

// Stop implements Server.
func (g *group) Stop() { g.stop() }

// Aim implements Replicated.
func (g *group) Aim(resource string) error {
	return redistest.Try(func() { g.target = g.master(resource) })
}

// FailOver implements Replicated.
func (g *group) FailOver() error { return redistest.Try(func() { g.failOver(g.target) }) }

// HoldBack implements Replicated. On a slow machine it may come when the server is down already: then it does nothing.
func (g *group) HoldBack() {
	if g.paused || g.target.PID() == 0 {
		return
	}
	g.behind = g.target
	g.behind.HoldBackReplicas()
}

// LetOn implements Replicated. A server that was killed lets on when it is restarted.
func (g *group) LetOn() {
	if g.behind == nil || g.paused {
		return
	}
	if g.behind.PID() != 0 {
		g.behind.ReleaseReplicas()
	}
	g.behind = nil
}

// Settle implements Replicated.
func (g *group) Settle() error {
	return redistest.Try(func() {
		g.LetOn()
		g.settle()
	})
}

// Nodes implements Replicated.
func (g *group) Nodes() (urls []string) {
	for _, s := range g.nodes {
		urls = append(urls, s.URL())
	}
	return urls
}

// Shard implements Replicated.
func (g *group) Shard(resource string) (nodes []int, err error) {
	err = redistest.Try(func() {
		for _, s := range g.shard(resource) {
			for i, n := range g.nodes {
				if n == s {
					nodes = append(nodes, i)
				}
			}
		}
	})
	return nodes, err
}

// Finders implements Replicated.
func (g *group) Finders() []string { return g.finders }

// Leads implements Replicated.
func (g *group) Leads(node int) (leads bool) {
	if err := redistest.Try(func() { leads = g.leads(g.nodes[node]) }); err != nil {
		return false
	}
	return leads
}
