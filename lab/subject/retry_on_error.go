package subject

import (
	"context"
	"crypto/rand"

	"github.com/redis/go-redis/v9"
)

// RetryOnError is TokenLua that repeats SET NX after an error of the connection, with the
// same value.
//
// Hole: if the first SET was executed and only its reply was lost, the second is refused,
// and the client locks itself out for the TTL.
func RetryOnError() Subject {
	return Subject{ID: "retry-on-error", Title: "token-lua that resends SET NX", Nodes: 1, Traits: Traits{Renews: true, Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, retryOnError{tokenLua{Setup: s}}.try}, nil }}
}

type retryOnError struct{ tokenLua }

func (l retryOnError) try(ctx context.Context, resource string) (*hold, error) {
	value := rand.Text()
	for {
		if err := l.at(ctx, "acquire.start"); err != nil {
			return nil, err
		}
		got, err := l.node().SetNX(ctx, resource, value, l.TTL).Result()
		switch {
		case err == nil && got:
			return l.held(resource, value), nil
		case err == nil:
			return nil, ErrBusy
		case answered(err) || ctx.Err() != nil:
			return nil, err
		}
		if err := rest(ctx, defaultRetry); err != nil {
			return nil, err
		}
	}
}

// answered reports whether an error is a reply of the server, not of the network.
func answered(err error) bool {
	_, ok := err.(redis.Error)
	return ok
}
