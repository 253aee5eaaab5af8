package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

const (
	// reachLimit bounds the first question to a server.
	reachLimit = 3 * time.Second
	// askLimit bounds all others together.
	askLimit = 8 * time.Second
	// Pings are made until there are enough or it took long enough.
	pings    = 20
	pingTime = 2 * time.Second
	// clockLooks is how often a server's clock is read: the quickest answer counts.
	clockLooks = 8
)

type role string

const (
	master  role = "master"
	replica role = "replica"
)

// server is one redis-server and what it said.
type server struct {
	place
	role      role
	clustered bool // it belongs to a cluster, and the URL says so
	rdb       *redis.Client

	trouble error // set: it did not answer, and nothing below is
	unready error // what it answered to PING in place of PONG
	rtts    []time.Duration
	clock   reading

	info    fields
	infoErr error
	conf    fields
	confErr error

	slowest    slowEntry
	rights     rights
	clusterIDs []string // of a server in cluster mode whose URL does not say so
}

func (s *site) newServer(addr string, r role) *server {
	return &server{place: place(addr), role: r, rdb: s.node.Server(addr), clustered: s.node.Kind == clusterURL}
}

// ask asks everything that the checks need.
func (s *server) ask(ctx context.Context, o Options) {
	first, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	// The first answer includes the connection and is not measured.
	if s.trouble = s.ping(first); s.trouble != nil {
		return
	}
	rest, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if s.trouble = s.measure(rest); s.trouble != nil {
		return
	}
	s.askInfo(rest)
	s.askConfig(rest)
	s.slowest = askSlowest(rest, s.rdb)
	all := deeds(o.Prefix)
	if s.clustered {
		all = append(all, deedsInCluster(o.Prefix)...)
	}
	s.rights = askRights(rest, s.rdb, all)
	if s.info["cluster_enabled"] == "1" {
		nodes, _ := s.rdb.ClusterNodes(rest).Result() // for the independence of a quorum's nodes
		for _, n := range parseNodes(nodes, string(s.place)) {
			s.clusterIDs = append(s.clusterIDs, n.id)
		}
	}
}

// ping is an error if nothing was answered, or the user is refused. A server that
// loads its data or cannot write them answers PING with an error, too.
func (s *server) ping(ctx context.Context) error {
	err := s.rdb.Ping(ctx).Err()
	var answered redis.Error
	if errors.As(err, &answered) && !refusedBy(err) {
		s.unready, err = err, nil
	}
	return err
}

// measure takes the time of small questions, and of the server's clock.
func (s *server) measure(ctx context.Context) error {
	for begin := time.Now(); len(s.rtts) < pings && time.Since(begin) < pingTime; {
		sent := time.Now()
		if err := s.ping(ctx); err != nil {
			return err
		}
		s.rtts = append(s.rtts, time.Since(sent))
	}
	for range clockLooks {
		if err := s.clock.look(ctx, s.rdb); err != nil {
			return nil // TIME may be refused; see checkRights
		}
	}
	return nil
}

func (s *server) askInfo(ctx context.Context) {
	text, err := s.rdb.Info(ctx).Result()
	s.info, s.infoErr = parseFields(text), err
	switch s.info["role"] { // what it is counts, not what it was taken for
	case "master":
		s.role = master
	case "slave":
		s.role = replica
	}
}

// settings are what is read of the configuration; nothing secret.
var settings = []string{
	"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error",
	"min-replicas-to-write", "min-replicas-max-lag", "timeout", "tcp-keepalive", "maxclients", "cluster-node-timeout",
	"slowlog-log-slower-than",
}

// askConfig reads the settings one by one: older servers know fewer.
func (s *server) askConfig(ctx context.Context) {
	pipe := s.rdb.Pipeline()
	asked := make([]*redis.MapStringStringCmd, len(settings))
	for i, name := range settings {
		asked[i] = pipe.ConfigGet(ctx, name)
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	s.conf = fields{}
	for i, name := range settings {
		values, err := asked[i].Result()
		if err != nil {
			s.confErr = err
			continue
		}
		if v, ok := values[name]; ok {
			s.conf[name] = v
		}
	}
	if len(s.conf) == 0 && s.confErr == nil {
		s.confErr = errors.New("CONFIG GET answers nothing")
	}
}

// setting is a setting by CONFIG or else by what INFO calls it.
func (s *server) setting(name, inInfo string) (string, bool) {
	if v, ok := s.conf[name]; ok {
		return v, true
	}
	v, ok := s.info[inInfo]
	return v, ok
}

// fields are lines of name:value, as INFO has them.
type fields map[string]string

func parseFields(text string) fields {
	f := fields{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && !strings.HasPrefix(name, "#") {
			f[name] = value
		}
	}
	return f
}

// refusedBy tells whether an error is the store's refusal of the user.
func refusedBy(err error) bool { return err != nil && store.RefusesUser(err.Error()) }

// short words an error in one line.
func short(err error) string {
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "no answer in time"
	}
	return strings.Join(strings.Fields(text), " ")
}
