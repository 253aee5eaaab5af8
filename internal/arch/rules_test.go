package arch

import (
	"os"
	"testing"
)

// rule is one thing that stays as it is, and why.
type rule struct {
	name   string // also the folder of its planted violation
	reason string
	check  func(*tree) []finding
}

// rules returns all rules over source text; deps_test.go adds one over the
// built graph.
func rules() []rule {
	return []rule{
		{"direction", "an arrow back ties folders together: a change in one then reaches all, and none can be understood alone", direction},
		{"standard-library", "the contract and the specification are what everybody reads and implements: they drag nothing in", standardLibrary},
		{"pure-queue", "the queue is oracle, memory engine and model at once; a clock, a context or a goroutine in it ends replay", pureQueue},
		{"driver", "a driver that is named in one folder can be changed in one folder, and users of other engines do not link it", driver},
		{"root-io", "the client reaches the store through an engine only; I/O beside it is out of reach of tests in virtual time", rootIO},
		{"third-party", "every dependency of a lock is a dependency of every service that locks: go-redis, gronx for Cron (decision 0030), and nothing else", thirdParty},
		{"lab-and-bench", "the lab and the benchmarks use anything, so nothing may depend on them", labAndBench},
		{"package-names", "a package with a general name collects what belongs elsewhere", packageNames},
		{"package-comment", "a package that cannot be said in a sentence has no edge", packageComment},
		{"exported-comment", "every exported name says its units, defaults and errors", exportedComment},
		{"bool-parameters", "f(true) cannot be read at the call", boolParameters},
		{"init", "work at import time runs in programs that never lock, in an order that nobody chose", noInit},
		{"package-state", "two clients in one process share nothing but what the store keeps", packageState},
		{"file-size", "a file past 600 lines holds several ideas; a decision record may name an exception", fileSize},
		{"function-size", "a function past 80 lines cannot be seen whole", functionSize},
		{"words", "one word an idea: renew and keepalive, holder, weight, lost; see docs/ARCHITECTURE.md", words},
		{"retired-words", "a second word for a thing, or a word that only this project has, must be looked up: acquire, renew, release, hand off, yield, withdraw, expire, break, lose; batch, tombstone, subscription, timeout", retiredWords},
		{"homonyms", "one name for two things is read wrongly at each import", homonyms},
		{"file-names", "a reader looks for a type with ls", fileNames},
		{"unfinished", "a note to finish later is a bug report that nobody reads", unfinished},
		{"sleep", "a sleep in a test is a race that is lost on a slow machine; wait for the event, or use testing/synctest", sleepInTests},
		{"skip", "a skipped test proves nothing and looks like one that does", skippedTests},
	}
}

func TestRules(t *testing.T) {
	project := load(t, os.DirFS("../.."))
	if len(project.folders) < 3 {
		t.Fatalf("only %d packages found: the rules do not see the project", len(project.folders))
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range r.check(project) {
				t.Errorf("%v\n\twhy not: %s", f, r.reason)
			}
		})
	}
}
