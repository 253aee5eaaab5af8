// Package demo plays two scenes on a store. In the first, three services of two
// nodes each, every node a process of its own, sell the same stock by reading it,
// working a moment and writing it back. In the second, two nodes want to build the
// report of the day, and two to push it to each user.
//
// The first scene is played three times: without a lock; with Holdfast; and with
// Holdfast while one node is killed and another is stopped past its TTL and
// resumed, both in the middle of their work. What is claimed about each is
// measured, not assumed: sales are counted in the store.
//
// The second is played twice: with a lock alone, and with Once and Job while a
// node is killed in mid-work and the store is down for a while. The
// parent counts the pushes to each user.
package demo

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// NodeName is the name (argv[0]) under which the program must be started to be
// a node of the scene.
const NodeName = "hf-demo-node"

// ttl of the leases. It is short, so that the end of a dead node's lease can be
// watched; a service would keep the default.
const ttl = time.Second

// limit bounds one act. It is far above what one takes.
const limit = 15 * time.Second

// services that sell, and how many nodes each has.
var services = [...]string{"web", "app", "partner"}

const nodesEach = 2

// config is a node's first line of input.
type config struct {
	Name   string // service and number
	Store  string // URL of the locks
	TLS    store.TLS
	Data   string // URL of the stock, a Redis; "": it is in the store of the locks
	Prefix string
	Locked bool
	Part   part // in the scene of report and push; "": the node sells
}

// The lines that follow it: start, and in the act with faults trap (be caught in
// the middle of your next sale) and goOn (finish that sale).
const (
	lineStart = "start"
	lineTrap  = "trap"
	lineGoOn  = "go on"
)

// report is what a node writes to the parent, one JSON object a line.
type report struct {
	Kind  reportKind
	Token uint64 `json:",omitempty"` // of the lease
	Above uint64 `json:",omitempty"` // refused: the token that the stock has seen
	Lost  bool   `json:",omitempty"` // refused: the lease itself reported that it was lost
	Text  string `json:",omitempty"` // failed: why
	User  int    `json:",omitempty"` // pushed, midWork of a push: to whom
}

type reportKind string

const (
	ready   reportKind = "ready"   // connected
	granted reportKind = "granted" // got the lease
	midWork reportKind = "midwork" // trapped between reading and writing
	sold    reportKind = "sold"    // one unit
	refused reportKind = "refused" // the stock refused a write by its fencing token
	built   reportKind = "built"   // the report of the day
	pushed  reportKind = "pushed"  // the report to one user
	failed  reportKind = "failed"  // the node cannot go on
)
