package command

import (
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// chainVar lists the leases under which a command runs, its own last, when
// `holdfast run` is nested: resource=holder pairs, both escaped, with & between. If a lease is of
// several resources, all but the first have their fencing token in place of the holder ID.
const chainVar = "HOLDFAST_CHAIN"

// outerLease is a lease under which this process runs.
type outerLease struct{ resource, holder string }

// outerLeases returns the leases under which this process runs. A malformed entry is
// ignored: the variable serves to detect deadlocks, and exclusion does not depend on it.
func outerLeases() []outerLease {
	var links []outerLease
	for pair := range strings.SplitSeq(os.Getenv(chainVar), "&") {
		name, holder, ok := strings.Cut(pair, "=")
		name, err1 := url.QueryUnescape(name)
		holder, err2 := url.QueryUnescape(holder)
		if ok && err1 == nil && err2 == nil && holder != "" {
			links = append(links, outerLease{name, holder})
		}
	}
	return links
}

// withOuterLeases returns the value of chainVar for a command under one more lease of resources.
func withOuterLeases(resources []string, lease *holdfast.Lease) string {
	var chain []string
	if outer := os.Getenv(chainVar); outer != "" {
		chain = append(chain, outer)
	}
	for i, name := range resources {
		holder := lease.HolderID()
		if i > 0 {
			holder = strconv.FormatUint(lease.Tokens()[name], 10)
		}
		chain = append(chain, url.QueryEscape(name)+"="+url.QueryEscape(holder))
	}
	return strings.Join(chain, "&")
}

// nesting is how a request relates to the leases under which this process runs.
type nesting uint8

const (
	notNested nesting = iota
	// waitsForItself: an outer lease excludes the request.
	waitsForItself
	// mayWaitForItself: an outer reader does not exclude a further one, but a writer that comes between
	// them waits for the outer reader, and the further one waits for that writer.
	mayWaitForItself
)

// nestingOf returns how a request of weight, or of a reader if shared, relates to the leases that this process runs
// under. A lease of the same name in another store, or one that has ended, is not in the snapshot.
func nestingOf(snap holdfast.Snapshot, weight int, shared bool) nesting {
	own, holds := 0, false
	for _, l := range outerLeases() {
		for _, h := range snap.Holders {
			if l.resource == snap.Resource && (l.holder == h.ID || l.holder == strconv.FormatUint(h.Token, 10)) {
				holds = true
				own += h.Weight
			}
		}
	}
	switch {
	case !holds, snap.Kind == string(engine.KindSemaphore) && own+weight <= snap.Capacity: // enough slots are left
		return notNested
	case shared && snap.Kind == string(engine.KindRW) && own < snap.Capacity:
		return mayWaitForItself
	}
	return waitsForItself
}

// mergeEnviron returns base without the variables of over, then over.
func mergeEnviron(base, over []string) []string {
	set := make(map[string]bool, len(over))
	for _, kv := range over {
		name, _, _ := strings.Cut(kv, "=")
		set[name] = true
	}
	var result []string
	for _, kv := range base {
		if name, _, _ := strings.Cut(kv, "="); !set[name] {
			result = append(result, kv)
		}
	}
	return append(result, over...)
}
