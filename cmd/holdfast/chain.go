package main

import (
	"net/url"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// chainVar lists the leases under which a command runs, its own last, when
// `holdfast run` is nested: resource=holder pairs, both escaped, with & between.
const chainVar = "HOLDFAST_CHAIN"

// link is one lease of the chain.
type link struct{ resource, holder string }

// chain reads the leases that this process runs under. What cannot be read is
// left out: the variable is for finding mistakes, exclusion does not rest on it.
func chain() []link {
	var links []link
	for pair := range strings.SplitSeq(os.Getenv(chainVar), "&") {
		name, holder, ok := strings.Cut(pair, "=")
		name, err1 := url.QueryUnescape(name)
		holder, err2 := url.QueryUnescape(holder)
		if ok && err1 == nil && err2 == nil && holder != "" {
			links = append(links, link{name, holder})
		}
	}
	return links
}

// extendChain is the value of chainVar below one more lease.
func extendChain(resource, holder string) string {
	own := url.QueryEscape(resource) + "=" + url.QueryEscape(holder)
	if outer := os.Getenv(chainVar); outer != "" {
		return outer + "&" + own
	}
	return own
}

// nestedUnder returns the holder ID of the lease that this process runs under,
// if that is among the holders and in the way: to wait for it would be to wait for
// oneself. Since the store was asked, neither a lease of the same name in another
// store nor one that has ended counts.
func nestedUnder(snap holdfast.Snapshot) (holder string) {
	own := 0
	for _, l := range chain() {
		for _, h := range snap.Holders {
			if h.ID == l.holder && l.resource == snap.Resource {
				holder = h.ID
				own += h.Weight
			}
		}
	}
	if snap.Kind == string(engine.KindSemaphore) && own < snap.Capacity {
		return "" // there is a slot besides
	}
	return holder
}

// overlay is base without the variables that over sets, then over.
func overlay(base, over []string) []string {
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
