package subject

import (
	"context"
)

// LuaSetnx sets key and TTL in one script, and releases with a bare DEL.
//
// Hole: if a holder outlives the TTL, its DEL frees the lock of the next holder, whose
// DEL frees that of the third, and so on.
func LuaSetnx() Subject {
	return Subject{ID: "lua-setnx", Title: "script: SETNX + EXPIRE; DEL", Nodes: 1, Traits: Traits{Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, luaSetnx{s}.try}, nil }}
}

const luaSetnxScript = `
if redis.call('SETNX', KEYS[1], '1') == 1 then
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
	return 1
end
return 0`

type luaSetnx struct{ Setup }

func (l luaSetnx) try(ctx context.Context, resource string) (*hold, error) {
	n, err := l.node().Eval(ctx, luaSetnxScript, []string{resource}, l.millis()).Int64()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, ErrBusy
	}
	return &hold{release: func(ctx context.Context) error { return l.del(ctx, resource) }}, nil
}
