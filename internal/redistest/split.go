package redistest

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// SplitUser is the user whose connections Split does not close.
const (
	SplitUser     = "app"
	SplitPassword = "secret"
)

// WithSplitUser adds SplitUser, with all rights. Split does not affect it.
func WithSplitUser() Option {
	return WithArgs("--user", SplitUser, "on", ">"+SplitPassword, "~*", "&*", "+@all")
}

// Split separates the master from its replicas and from the Sentinels, as a broken network does, but
// not from clients that connect as SplitUser: for them it remains a master. Every server must have
// been started WithSplitUser. Heal ends the separation.
func (s *Sentinel) Split() {
	s.t.Helper()
	s.apart = s.master
	s.asSplitUser([]any{"acl", "setuser", "default", "off"}, []any{"client", "kill", "user", "default"})
}

// Heal reconnects the server that Split separated, as a replica of the present master.
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

// Replicas returns the living servers that are not the master, without one that Split separated.
func (s *Sentinel) Replicas() []*Server {
	return slices.DeleteFunc(s.Replicated.Replicas(), func(n *Server) bool { return n == s.apart })
}
