package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

const (
	// reachLimit bounds the first command to a server.
	reachLimit = 3 * time.Second
	// askLimit bounds all other commands together.
	askLimit = 8 * time.Second
)

type role string

const (
	master  role = "master"
	replica role = "replica"
)

// server is one redis-server and its answers.
type server struct {
	diagnosis.Place
	role      role
	clustered bool // it is in a cluster, and the URL is one of a cluster
	rdb       *redis.Client

	trouble error // set: it did not answer, and nothing below is set
	unready error // its answer to PING if that was not PONG
	rtts    diagnosis.RoundTrips
	clock   diagnosis.ClockReading

	info    fields
	infoErr error
	conf    fields
	confErr error

	slowest    slowEntry
	rights     rights
	clusterIDs []string // of a server in cluster mode whose URL is not one of a cluster
}

func (s *site) newServer(addr string, r role) *server {
	return &server{Place: diagnosis.Place(addr), role: r, rdb: s.node.Server(addr), clustered: s.node.Kind == clusterURL}
}

// ask queries everything that the checks need.
func (s *server) ask(ctx context.Context, o diagnosis.Options) {
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
	all := protocolCommands(o.Prefix)
	if s.clustered {
		all = append(all, clusterCommands(o.Prefix)...)
	} else {
		all = append(all, singleCommands(o.Prefix)...)
	}
	s.rights = askRights(rest, s.rdb, all)
	if s.info["cluster_enabled"] == "1" {
		nodes, _ := s.rdb.ClusterNodes(rest).Result() // for the independence of a quorum's nodes
		for _, n := range parseNodes(nodes, string(s.Place)) {
			s.clusterIDs = append(s.clusterIDs, n.id)
		}
	}
}

// ping returns an error if there is no answer, or the user is refused. A server that loads its data
// or cannot write them also answers PING with an error; ping stores that in unready.
func (s *server) ping(ctx context.Context) error {
	err := s.rdb.Ping(ctx).Err()
	if _, ok := errors.AsType[redis.Error](err); ok && !refusedBy(err) {
		s.unready, err = err, nil
	}
	return err
}

// measure measures round trips and reads the server's clock, which may be refused; see checkRights.
func (s *server) measure(ctx context.Context) (err error) {
	if s.rtts, err = diagnosis.MeasureRoundTrips(func() error { return s.ping(ctx) }); err != nil {
		return err
	}
	s.clock, _ = diagnosis.ReadClock(func() (time.Time, error) { return s.rdb.Time(ctx).Result() })
	return nil
}

func (s *server) askInfo(ctx context.Context) {
	text, err := s.rdb.Info(ctx).Result()
	s.info, s.infoErr = parseFields(text), err
	switch s.info["role"] { // the actual role counts, not the expected one
	case "master":
		s.role = master
	case "slave":
		s.role = replica
	}
}

// settings are the settings that are read. None is secret.
var settings = []string{
	"maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "stop-writes-on-bgsave-error",
	"min-replicas-to-write", "min-replicas-max-lag", "timeout", "tcp-keepalive", "maxclients", "cluster-node-timeout",
	"slowlog-log-slower-than",
}

// askConfig reads the settings one by one, since older servers have fewer.
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

// setting returns a setting from CONFIG, or else from INFO, under its name there.
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

// refusedBy reports whether the store refuses the user with this error.
func refusedBy(err error) bool { return err != nil && store.RefusesUser(err.Error()) }
