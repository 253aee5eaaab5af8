package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
)

// rights are the rights of the URL's user according to ACL DRYRUN.
type rights struct {
	user  string
	asked bool // false: the server has no DRYRUN, or refuses it
	lacks []lack
}

// lack is a command that the user may not run, and the server's error.
type lack struct{ command, why string }

// protocolCommand is a command that Holdfast sends, with arguments of the same form.
type protocolCommand []any

func (d protocolCommand) name() string {
	switch d[0] {
	case "cluster", "pubsub":
		return d[0].(string) + "|" + d[1].(string)
	}
	return d[0].(string)
}

// protocolCommands are the commands of docs/PROTOCOL.md; a test compares them.
func protocolCommands(prefix string) []protocolCommand {
	const hash = "0000000000000000000000000000000000000000"
	core := prefix + ":{doctor}"
	line, client, channel := core+":line", prefix+":client:doctor", prefix+":wake:doctor"
	return []protocolCommand{
		{"evalsha", hash, "2", core, line}, {"eval", "return 0", "2", core, line},
		{"hmget", core, "f"}, {"hset", core, "f", "v"}, {"hget", core, "f"}, {"hdel", core, "f"}, {"hincrby", core, "f", "1"},
		{"del", line}, {"zadd", line, "1", "m"}, {"zrem", line, "m"}, {"zpopmin", line}, {"zscore", line, "m"}, {"zmscore", line, "m"},
		{"zcard", line}, {"zcount", line, "0", "1"}, {"zrange", line, "0", "0"}, {"zrank", line, "m"}, {"zrangebyscore", line, "0", "1"}, {"zrevrangebyscore", line, "1", "0"},
		{"unlink", line},
		{"pexpireat", core, "1"}, {"time"}, {"publish", channel, "m"}, {"subscribe", channel}, {"ping"},
		{"set", client, "v", "px", "1"}, {"get", client}, {"scan", "0"},
	}
}

// singleCommands are further commands outside a cluster. None is needed: see withoutIt.
func singleCommands(prefix string) []protocolCommand {
	return []protocolCommand{{"pubsub", "numsub", prefix + ":wake:doctor"}}
}

// clusterCommands are further commands in a cluster. Only the first is needed: see withoutIt.
func clusterCommands(prefix string) []protocolCommand {
	channel := prefix + ":{doctor}:wake:doctor"
	return []protocolCommand{{"cluster", "slots"}, {"spublish", channel, "m"}, {"ssubscribe", channel}}
}

// withoutIt returns what follows from the lack of a command that is not needed, or "" if it is needed.
func (l lack) withoutIt() string {
	switch l.command {
	case "spublish", "ssubscribe":
		return "wake-ups go to all servers of the cluster"
	case "pubsub|numsub":
		return fmt.Sprintf("a waiter that dies delays those behind it by up to %v", engine.ClaimWindow)
	}
	return ""
}

// askRights queries the rights of a connection's user.
func askRights(ctx context.Context, rdb *redis.Client, all []protocolCommand) rights {
	user, err := rdb.Do(ctx, "acl", "whoami").Text()
	if err != nil {
		return rights{}
	}
	pipe := rdb.Pipeline()
	answers := make([]*redis.Cmd, len(all))
	for i, d := range all {
		answers[i] = pipe.Do(ctx, append([]any{"acl", "dryrun", user}, d...)...)
	}
	_, _ = pipe.Exec(ctx) // each has its own error
	r := rights{user: user, asked: true}
	for i, d := range all {
		said, err := answers[i].Text()
		switch {
		case err != nil && !strings.Contains(err.Error(), "not found"): // NOPERM, or no DRYRUN
			return rights{user: user}
		case err != nil: // the server does not have the command: it was renamed, or is of another server
			r.lacks = append(r.lacks, lack{d.name(), diagnosis.OneLine(err)})
		case said != "OK":
			r.lacks = append(r.lacks, lack{d.name(), said})
		}
	}
	return r
}

// checkRights reports which rights the user lacks, if the server answered. If not, checkTrial reports
// the outcome of tryRights.
func (s *server) checkRights(r *diagnosis.Report, o diagnosis.Options) {
	c := s.Check("rights", &r.Findings)
	switch {
	case !s.rights.asked:
		return
	case len(s.rights.lacks) == 0:
		c.OK("user %s has all rights that Holdfast needs on %s:*", s.rights.user, o.Prefix)
		return
	}
	names, words, needed, without := []string{}, []string{"ACL SETUSER", s.rights.user}, false, ""
	for _, l := range s.rights.lacks {
		names = append(names, l.command)
		needed, without = needed || l.withoutIt() == "", l.withoutIt()
		if g := l.grant(o.Prefix); !slices.Contains(words, g) {
			words = append(words, g)
		}
	}
	remedy, list := strings.Join(words, " "), strings.Join(names, ", ")
	if !needed {
		c.With("lacks", names).Warn(remedy, "user %s may not run %s on %s:*, so %s", s.rights.user, list, o.Prefix, without)
		return
	}
	c.With("lacks", names).FailAs(diagnosis.Denied, remedy, "user %s may not run %s on %s:*", s.rights.user, list, o.Prefix)
}

// grant returns the rules for ACL SETUSER that grant what is lacking.
func (l lack) grant(prefix string) string {
	switch {
	case strings.Contains(l.why, " key"):
		return "'~" + prefix + ":*'"
	case strings.Contains(l.why, " channel"):
		return "'&" + prefix + ":*'"
	}
	if strings.Contains(l.command, "|") { // a pipe of the shell
		return "'+" + l.command + "'"
	}
	return "+" + l.command
}
