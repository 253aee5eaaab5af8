package live

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// env in the environment makes a program that calls Serve first a worker.
const env = "HOLDFAST_LAB_WORKER"

// opening is the first line to a worker.
type opening struct {
	Name    string        `json:"name"`
	Place   uint64        `json:"place"` // among the workers; with the seed it decides what is drawn
	Program Program       `json:"program"`
	Nodes   []string      `json:"nodes"`  // URLs
	Prefix  string        `json:"prefix"` // of keys
	Start   time.Duration `json:"start"`  // of the history, on the shared clock
	Points  []string      `json:"points"` // at which it waits for the runner
	Steps   Steps         `json:"steps"`
	// Stops are the visits, from 1, of points of its client at which it stops itself.
	Stops map[string][]int `json:"stops,omitempty"`
}

// Steps reports whether a worker's wall clock will be stepped.
type Steps uint8

// The answers.
const (
	ClockStays Steps = iota
	ClockSteps
)

// The orders to a worker. Each but orderReply is answered by a report with Did.
const (
	orderOpen  = "open"  // make the client
	orderWork  = "work"  // begin
	orderStep  = "step"  // the wall clock
	orderTake  = "take"  // all connections of its pools
	orderFree  = "free"  // them again
	orderRest  = "rest"  // begin no more rounds; it is answered when none is under way
	orderCalm  = "calm"  // take everything once more
	orderClose = "close" // close the client
	orderReply = "reply" // the answer to a point or an access with the same ID
)

// order is a line to a worker.
type order struct {
	Do   string        `json:"do"`
	Open *opening      `json:"open,omitempty"`
	ID   uint64        `json:"id,omitempty"`
	Op   *history.Op   `json:"op,omitempty"` // of an access
	By   time.Duration `json:"by,omitempty"` // of a step
	Err  string        `json:"err,omitempty"`
}

// report is a line from a worker; one field beside ID and Err is set.
type report struct {
	ID      uint64      `json:"id,omitempty"`
	Did     string      `json:"did,omitempty"`     // an order
	Op      *history.Op `json:"op,omitempty"`      // it happened
	Begun   *history.Op `json:"begun,omitempty"`   // a run that has begun; its end follows, unless the worker dies
	Access  *history.Op `json:"access,omitempty"`  // of the vault; it waits for the reply
	Point   string      `json:"point,omitempty"`   // it waits for the reply, unless the point is one of its client
	Stops   bool        `json:"stops,omitempty"`   // with Point: it stops itself now
	Trouble string      `json:"trouble,omitempty"` // what should not be, and is not in the history
	Check   string      `json:"check,omitempty"`   // what to call the trouble
	Name    string      `json:"name,omitempty"`    // of its resource
	Err     string      `json:"err,omitempty"`
	Excuse  *span       `json:"excuse,omitempty"` // with Trouble: in it, a fault must explain the trouble
	Stall   *span       `json:"stall,omitempty"`  // the worker did not go on
	Kind    StallKind   `json:"kind,omitempty"`   // with Stall: what of the worker did not go on

	Silent []time.Duration `json:"silent,omitempty"` // with orderClose: how long each node was, at most
}

// span is a time of the history.
type span struct{ From, To time.Duration }
