// Package demo runs two scenes on a store. In the first, three services of two
// nodes each, every node a separate process, sell the same stock: they read it, work
// for a moment and write it back. In the second, two nodes build the report of the day,
// and two push it to each user.
//
// The first scene has three acts: without a lock; with Holdfast; and with Holdfast
// while one node is killed and another is stopped for longer than its TTL and resumed,
// both between reading and writing. The results are measured: sales are counted in the
// store.
//
// The second scene has two acts: with a lock alone, and with Once and Job while a
// node is killed during its work and the store is down for a while. The parent counts
// the pushes to each user.
package demo

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// NodeName is the name (argv[0]) under which the program is a node of a scene.
const NodeName = "hf-demo-node"

// ttl is the TTL of the leases. It is short, so that users see the lease of a dead
// node expire; a service would keep the default.
const ttl = time.Second

// limit is the timeout of one act, which usually takes far less.
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
	Part   part // in the second scene; "": the node sells
}

// The lines that follow the configuration: start, and in the act with faults trap (stop
// between reading and writing in the next sale) and goOn (finish that sale).
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
	Text  string `json:",omitempty"` // failed: the error
	User  int    `json:",omitempty"` // pushed, midWork of a push: the user
}

type reportKind string

const (
	ready   reportKind = "ready"   // connected
	granted reportKind = "granted" // acquired the lease
	midWork reportKind = "midwork" // trapped between reading and writing
	sold    reportKind = "sold"    // one unit
	refused reportKind = "refused" // the stock refused a write by its fencing token
	built   reportKind = "built"   // the report of the day
	pushed  reportKind = "pushed"  // the report to one user
	failed  reportKind = "failed"  // ended with an error
)
