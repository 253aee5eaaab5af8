// Package leaktest finds goroutines that a test left running. It is for tests only.
package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// timeout is how long goroutines that are ending may take.
const timeout = 5 * time.Second

// Check fails the test if goroutines run other than the test's own, those of package
// testing and those with one of the functions on their stack. Call it when nothing runs in parallel.
func Check(t testing.TB, ignored ...string) {
	t.Helper()
	if left := Find(ignored...); len(left) > 0 {
		t.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
	}
}

// Find returns the stacks of the goroutines that Check would complain of, after some time.
func Find(ignored ...string) []string {
	ignored = append(ignored, "testing.(*T).Run(", "testing.(*M).startAlarm", "testing.runFuzz", "os/signal.signal_recv", "runtime.ensureSigM", "testing.runTests(")
	pause := time.Millisecond
	for end := time.Now().Add(timeout); ; pause = min(2*pause, 100*time.Millisecond) {
		left := others(ignored)
		if len(left) == 0 || time.Now().After(end) {
			return left
		}
		<-time.After(pause)
	}
}

// others returns the stacks of all goroutines but this one and the ignored ones.
func others(ignored []string) []string {
	text := make([]byte, 1<<20)
	n := runtime.Stack(text, true)
	for ; n == len(text); n = runtime.Stack(text, true) {
		text = make([]byte, 2*len(text))
	}
	stacks := strings.Split(strings.TrimSpace(string(text[:n])), "\n\n")
	return slices.DeleteFunc(stacks[1:], func(stack string) bool {
		return slices.ContainsFunc(ignored, func(f string) bool { return strings.Contains(stack, f) })
	})
}

// Main runs the tests of a package, and then end, if there is one. They fail if goroutines are left after it.
func Main(m *testing.M, end ...func()) {
	code := m.Run()
	for _, f := range end {
		f()
	}
	if code == 0 {
		if left := Find(); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines are left:\n%s\n", len(left), strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}
