package subject

import (
	"context"
	"crypto/rand"
)

// TokenLua is the lock of the Redis documentation: SET NX PX with a random value,
// and scripts that compare before they delete or extend.
//
// Correct while its holder runs. Holes: a paused or disconnected holder writes after its
// TTL, because there is no fencing; the lock is lost with a failover.
func TokenLua() Subject {
	return Subject{ID: "token-lua", Title: "SET NX PX value; compare and delete by script", Nodes: 1, Traits: Traits{Renews: true, Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, tokenLua{Setup: s}.try}, nil }}
}

// TokenLuaFailover is TokenLua on a master with an asynchronous replica.
//
// Hole: the master dies before the replica had the key: both hold.
func TokenLuaFailover() Subject {
	s := TokenLua()
	s.ID, s.Title = "token-lua-failover", "token-lua on a master with an asynchronous replica"
	return s
}

const (
	compareAndDelete = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`
	compareAndExtend = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`
)

type tokenLua struct {
	Setup
	identity string // of the client; "": a new one for each attempt
	deletes  string // script of the release; "": compareAndDelete
}

func (l tokenLua) try(ctx context.Context, resource string) (*hold, error) {
	value := l.identity
	if value == "" {
		value = rand.Text()
	}
	if err := l.at(ctx, "acquire.start"); err != nil {
		return nil, err
	}
	got, err := l.node().SetNX(ctx, resource, value, l.TTL).Result()
	if err != nil {
		return nil, err
	}
	if !got {
		return nil, ErrBusy
	}
	return l.held(resource, value), nil
}

func (l tokenLua) held(resource, value string) *hold {
	deletes := l.deletes
	if deletes == "" {
		deletes = compareAndDelete
	}
	return &hold{
		extend: func(ctx context.Context) error {
			if err := l.at(ctx, "renew.start"); err != nil {
				return err
			}
			return heldIf(l.node().Eval(ctx, compareAndExtend, []string{resource}, value, l.millis()).Int64())
		},
		release: func(ctx context.Context) error {
			if err := l.at(ctx, "release.start"); err != nil {
				return err
			}
			return heldIf(l.node().Eval(ctx, deletes, []string{resource}, value).Int64())
		},
	}
}
