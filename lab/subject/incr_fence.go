package subject

import (
	"context"
)

// IncrFence is TokenLua with INCR of a second key as fencing token.
//
// Hole: after a power loss or a failover the same token is given twice, or a
// smaller one: the fence then refuses the new holder, or accepts the old one.
func IncrFence() Subject {
	return Subject{ID: "incr-fence", Title: "token-lua + INCR as fencing token", Nodes: 1,
		Traits: Traits{Tokens: true, Fence: OnClaims, Renews: true, Points: true}, Open: openIncrFence}
}

// WriteOnlyFence is IncrFence with a protected side that checks the token on writes but
// not on reads.
//
// Hole: two holders read, then both write in the order of their tokens: an update
// is lost and no token was stale.
func WriteOnlyFence() Subject {
	return Subject{ID: "write-only-fence", Title: "token-lua + token checked on writes only", Nodes: 1,
		Traits: Traits{Tokens: true, Fence: OnWrites, Renews: true, Points: true}, Open: openIncrFence}
}

func openIncrFence(s Setup) (Client, error) {
	return &polling{s, incrFence{tokenLua{Setup: s}}.try}, nil
}

type incrFence struct{ tokenLua }

func (l incrFence) try(ctx context.Context, resource string) (*hold, error) {
	h, err := l.tokenLua.try(ctx, resource)
	if err != nil {
		return nil, err
	}
	if err := l.at(ctx, "acquire.set"); err != nil {
		return nil, err
	}
	n, err := l.node().Incr(ctx, resource+":token").Uint64()
	if err != nil {
		return nil, err
	}
	h.token = n
	return h, nil
}
