package redistest

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// The user of a split group whose connections outlive the split.
const (
	SplitUser     = "app"
	SplitPassword = "secret"
)

// WithSplitUser adds the user that Split spares, who may do everything.
func WithSplitUser() Option {
	return WithArgs("--user", SplitUser, "on", ">"+SplitPassword, "~*", "&*", "+@all")
}

// Split takes the master away from its replicas and from the Sentinels, as a
// broken network does, but not from those who connect as SplitUser: they go on
// with it as with a master. Every server must have been started WithSplitUser.
// Heal ends it.
func (s *Sentinel) Split() {
	s.t.Helper()
	s.apart = s.master
	s.asSplitUser([]any{"acl", "setuser", "default", "off"}, []any{"client", "kill", "user", "default"})
}

// Heal brings the server back that Split took away, as a replica of the present
// master.
func (s *Sentinel) Heal() {
	s.t.Helper()
	s.asSplitUser([]any{"acl", "setuser", "default", "on"})
	s.apart = nil
	Await(s.t, topologyTimeout, "the replicas follow the master", func() bool { return s.master.leads(s.Replicas()) })
	s.AwaitWatched()
}

func (s *Sentinel) asSplitUser(commands ...[]any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	c := redis.NewClient(&redis.Options{Addr: s.apart.Addr(), Username: SplitUser, Password: SplitPassword})
	defer c.Close()
	for _, args := range commands {
		if err := c.Do(ctx, args...).Err(); err != nil {
			s.t.Fatalf("redistest: %s: %v: %v", s.apart.Addr(), args, err)
		}
	}
}

// Replicas lists the living servers that are not the master, without one that
// Split took away.
func (s *Sentinel) Replicas() []*Server {
	return slices.DeleteFunc(s.Replicated.Replicas(), func(n *Server) bool { return n == s.apart })
}
