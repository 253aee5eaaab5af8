package quorum

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/engine"
)

// idSeparator separates a holder ID from the token in an ID on the nodes.
const idSeparator = "~"

// leaseID returns the ID of a ballot, and of the lease that it becomes, on the nodes. Each ballot
// of a holder ID has an ID of its own, so a late release of one ballot cannot end another. The ID
// is made of holder ID and token, so these suffice to find the lease. It begins with the holder
// ID, so engine.ClientOf also works for it.
func leaseID(id string, token uint64) string {
	return id + idSeparator + strconv.FormatUint(token, 36)
}

// repeatedLeaseID returns the ID of a later ballot with the same token.
func repeatedLeaseID(id string, token uint64, n int) string {
	return leaseID(id, token) + idSeparator + "r" + strconv.Itoa(n)
}

// turnID returns the ID of an attempt's turn in the queues of the nodes.
func turnID(id string, place uint64) string {
	return leaseID(id, place) + idSeparator + "q"
}

// parseLeaseID returns the holder ID and the token in an ID on a node. The token is 0 if the ID
// is not from a quorum.
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

// asLease returns a holder on a node with the holder ID and the token of its lease.
func asLease(h engine.Holder) engine.Holder {
	lease := leaseOf(h)
	h.ID, h.Token = lease.ID, lease.Token
	return h
}

// leaseOf returns the holder ID and the token of the lease to which a holder on a node belongs.
func leaseOf(h engine.Holder) engine.Held {
	if id, token := parseLeaseID(h.ID); token != 0 {
		return engine.Held{ID: id, Token: token}
	}
	return engine.Held{ID: h.ID, Token: h.Token}
}
