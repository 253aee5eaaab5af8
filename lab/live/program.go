package live

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// Program is what one run does. It prints as JSON.
type Program struct {
	Seed      uint64        `json:"seed"`
	Subject   string        `json:"subject"` // the ID of package subject
	Nodes     int           `json:"nodes"`   // stores
	Workers   int           `json:"workers"`
	Hands     int           `json:"hands"` // rounds that a worker does at once
	TTL       time.Duration `json:"ttl"`
	Resources []Resource    `json:"resources"`
	Ways      []Way         `json:"ways"`
	Length    time.Duration `json:"length"` // of the work; what follows it is not counted
	Faults    []string      `json:"faults"` // as package fault prints them
	// History has the clients record a history in the stores, which is compared with that of the lab.
	History bool `json:"history,omitempty"`
	// Rates are by how many thousandths the wall clock of each store runs fast, or slow; none: they have the machine's.
	Rates []int `json:"rates,omitempty"`
	// Wrong is what is wrong with the program of a control.
	Wrong Wrong `json:"wrong,omitempty"`
}

// Resource is something to lock, and what is done under it.
type Resource struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
}

// locked reports whether the resource itself is what is locked: a slot has one for each
// run, under another name, and a latch is no lock.
func (r Resource) locked() bool { return r.Kind != Slot && r.Kind != Latch }

// names are what is locked for the resource: the parts of a Multi, or the resource itself. A slot is locked under other names, and a latch not at all.
func (r Resource) names() []string {
	switch r.Kind {
	case Slot, Latch:
		return nil
	case Several:
		return []string{r.Name + "/a", r.Name + "/b", r.Name + "/c"}
	}
	return []string{r.Name}
}

// Kind is a primitive and its workload.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"   // Mutex; read, add, write
	Stock     Kind = "stock"     // Mutex; read, take one, write
	Log       Kind = "log"       // Mutex; append to a log
	Pair      Kind = "pair"      // RWMutex; readers see both halves of what writers write
	Semaphore Kind = "semaphore" // Semaphore
	Slot      Kind = "slot"      // Job.Run and Client.Once, at most once a slot
	Election  Kind = "election"  // Election; the leader reads, adds, writes, and all workers observe it
	Latch     Kind = "latch"     // Latch; one worker sets it, all count down or wait
	Cond      Kind = "cond"      // Mutex with a Cond; read, add, write, and wake all, or wait for that first
	Several   Kind = "multi"     // Multi of two or three names; read, add, write of each
	Moved     Kind = "moved"     // Mutex whose lease another client of the worker adopts; read, add, write
)

// Way is how a round acquires.
type Way string

// The ways.
const (
	Plain     Way = "plain"
	Try       Way = "try"
	NoTenure  Way = "no tenure"
	NoRenewal Way = "no renewal"
	Linger    Way = "linger"
)

// Sizes of what is locked and done.
const (
	capacity   = 3                      // of a semaphore
	pieces     = 60                     // of stock
	slotLength = 150 * time.Millisecond // of jobs, and of the IDs of Once
)

// schedule parses the faults.
func (p Program) schedule() (fault.Schedule, error) {
	var all fault.Schedule
	for _, line := range p.Faults {
		f, err := fault.Parse(line)
		if err != nil {
			return nil, err
		}
		if f.Match != "" {
			f.Match = p.store().OnWire(f.Match)
		}
		all = append(all, f)
	}
	return all, nil
}

// holdfast reports whether the subject is Holdfast, with all its primitives. Others
// are played as a mutex.
func (p Program) holdfast() bool {
	_, ok := stores.Of(p.Subject)
	return ok
}

// onRedis reports whether a subject is Holdfast on one Redis or on several.
func onRedis(subject string) bool { return subject == "holdfast" || subject == "holdfast-quorum" }

// store returns the kind of the stores. Locks other than Holdfast run on Redis.
func (p Program) store() stores.Store {
	if s, ok := stores.Of(p.Subject); ok {
		return s
	}
	return stores.Redis()
}
