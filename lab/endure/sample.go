package endure

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast"
)

// Sample is what was measured at the end of one minute of a run, while the load rested.
type Sample struct {
	Minute int
	Load   Tally // of the measured process, since the start

	// Of the measured process.
	Heap, Objects uint64 // after a collection
	Goroutines    int
	Descriptors   int // open; 0: the system does not list them
	Sockets       int // of them
	// By Stats of its clients.
	Leases, Lingering int
	Releases          int    // that are not confirmed
	Losses            uint64 // of leases, so far

	Unsettled bool // something was still under way
	Store     Census

	Away     time.Duration // how long the failover of this minute took
	Rested   time.Duration // how long the load rested
	Visitors int           // that have gone, so far
}

// Census is what is in a store, and who is connected to it.
type Census struct {
	Keys        map[string]int // by kind
	Memory      int64          // bytes of the data
	Connections int            // of the measured process
	Visitors    int            // connections of the processes that come and go
	Eternal     []string       // keys without a TTL
	Overstayed  []string       // keys of names that should be forgotten, or with a TTL that is too long
}

// look fills in what the clients of the process say.
func (s *Sample) look(clients ...*holdfast.Client) {
	for _, c := range clients {
		stats := c.Stats()
		s.Leases += stats.Leases
		s.Releases += stats.Releases
		s.Lingering += stats.Lingering
		l := stats.Losses
		s.Losses += l.Expired + l.Taken + l.Deleted + l.Broken + l.Unreachable + l.Elsewhere
	}
	s.Goroutines = runtime.NumGoroutine()
}

// measure fills in what the process has.
func (s *Sample) measure() {
	runtime.GC() // moves what the pools of package sync hold to their second generation,
	runtime.GC() // and this one frees it
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.Heap, s.Objects = m.HeapAlloc, m.HeapObjects
	s.Descriptors, s.Sockets = descriptors()
}

// descriptors counts the open descriptors of this process, and the sockets among them. On systems
// that do not list them it returns 0.
func descriptors() (all, sockets int) {
	const dir = "/dev/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0
	}
	for _, e := range entries {
		info, err := os.Stat(dir + "/" + e.Name())
		if err != nil {
			continue // the descriptor of the folder itself
		}
		all++
		if info.Mode()&os.ModeSocket != 0 {
			sockets++
		}
	}
	return all, sockets
}

// header is the first line of the table of samples.
const header = "minute   heap KiB  objects gorout. descr. sockets conns | leases lost | keys core  line client | store MiB | granted  done    refused failed | failover   rest visitors"

// String returns one line of the table.
func (s Sample) String() string {
	mark := ""
	if s.Unsettled {
		mark = " (work was still under way)"
	}
	return fmt.Sprintf("%6d %10d %8d %7d %6d %7d %5d | %6d %4d | %9d %5d %6d | %9.1f | %7d %7d %7d %6d | %7.1fs %5.1fs %8d%s",
		s.Minute, s.Heap>>10, s.Objects, s.Goroutines, s.Descriptors, s.Sockets, s.Store.Connections, s.Leases, s.Losses,
		s.Store.Keys["core"], s.Store.Keys["line"], s.Store.Keys["client"], float64(s.Store.Memory)/megabyte,
		s.Load.Granted, s.Load.Done, s.Load.Refused, s.Load.Failed, s.Away.Seconds(), s.Rested.Seconds(), s.Visitors, mark)
}
