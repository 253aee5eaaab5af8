package engine

import "strings"

// ClientOf returns the client ID in a holder ID: the part before the dot, or
// the whole ID if it has none. Wake-ups for a holder ID go to that client.
func ClientOf(holderID string) string {
	client, _, _ := strings.Cut(holderID, ".")
	return client
}
