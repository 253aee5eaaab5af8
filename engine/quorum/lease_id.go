package quorum

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/engine"
)

// idSeparator separates a holder ID from the token in an ID on the nodes.
const idSeparator = "~"

// leaseID returns the ID that a lease has on the nodes. Each ballot of a holder ID has an ID
// of its own, so a late release of one cannot end another. It is made of the token, so holder
// ID and token suffice to name the lease. The client's part stays in front.
func leaseID(id string, token uint64) string {
	return id + idSeparator + strconv.FormatUint(token, 36)
}

// repeatedLeaseID returns the ID of a later ballot with the same token.
func repeatedLeaseID(id string, token uint64, n int) string {
	return leaseID(id, token) + idSeparator + "r" + strconv.Itoa(n)
}

// turnID returns the ID of an attempt in the queues of the nodes, made of its place there.
func turnID(id string, place uint64) string {
	return leaseID(id, place) + idSeparator + "q"
}

// parseLeaseID returns the holder ID and the token of an ID on a node. The token is 0 if the
// quorum did not make the ID.
func parseLeaseID(id string) (holder string, token uint64) {
	holder, rest, ok := strings.Cut(id, idSeparator)
	if !ok {
		return id, 0
	}
	rest, _, _ = strings.Cut(rest, idSeparator)
	token, err := strconv.ParseUint(rest, 36, 64)
	if err != nil {
		return id, 0
	}
	return holder, token
}

// leaseOf returns the lease that a holder on a node is part of.
func leaseOf(h engine.Holder) engine.Held {
	if id, token := parseLeaseID(h.ID); token != 0 {
		return engine.Held{ID: id, Token: token}
	}
	return engine.Held{ID: h.ID, Token: h.Token}
}
