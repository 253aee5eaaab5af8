package quorum

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/engine"
)

// tryMark separates a holder ID from what names one try of it.
const tryMark = "~"

// tryID names one try of a holder ID on the nodes. Each try has an ID of its own, so
// that a late release of one cannot end another. It is made of the token, so that
// whoever knows the lease can name it. The client's part stays in front.
func tryID(id string, token uint64) string {
	return id + tryMark + strconv.FormatUint(token, 36)
}

// repeatID names a later try with the same token.
func repeatID(id string, token uint64, n int) string {
	return tryID(id, token) + tryMark + "r" + strconv.Itoa(n)
}

// turnID names the turn by which an attempt waits on the nodes, made of its place there.
func turnID(id string, place uint64) string {
	return tryID(id, place) + tryMark + "q"
}

// parseTry returns the holder ID and the token that an ID on a node stands for. The
// token is 0 if the quorum did not make the ID.
func parseTry(id string) (holder string, token uint64) {
	holder, rest, ok := strings.Cut(id, tryMark)
	if !ok {
		return id, 0
	}
	rest, _, _ = strings.Cut(rest, tryMark)
	token, err := strconv.ParseUint(rest, 36, 64)
	if err != nil {
		return id, 0
	}
	return holder, token
}

// needed is how many nodes a lease needs, so that at no instant more than the
// capacity is held. Two majorities share a node, and that one grants a capacity of 1,
// or all of it to a writer, to one of them only. Where weights add up, holders of a
// weight of w in all have needed·w units of nodes·capacity; so w stays below
// capacity + 1 only if needed is above nodes·capacity/(capacity+1).
func (e *Engine) needed(kind engine.Kind, capacity int) int {
	n := len(e.nodes)
	switch kind {
	case engine.KindRW, engine.KindCond:
		return e.majority // their capacity is "many", which nobody counts on
	}
	if capacity >= n {
		return n
	}
	return max(e.majority, n*capacity/(capacity+1)+1)
}
