package subject

import (
	"crypto/rand"
)

// TokenPerClient is TokenLua with one identity for each client instead of one for
// each attempt.
//
// Hole: a delayed release of the first attempt deletes the lock of the second.
func TokenPerClient() Subject {
	return Subject{ID: "token-per-client", Title: "token-lua with one value a client", Nodes: 1, Traits: Traits{Renews: true, Points: true},
		Open: func(s Setup) (Client, error) {
			return &polling{s, tokenLua{Setup: s, identity: s.Client + ":" + rand.Text()}.try}, nil
		}}
}
