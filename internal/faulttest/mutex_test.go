package faulttest

import (
	"testing"
	"time"
)

// No two hold a mutex at once, and tokens increase, whether the callers of a
// process pass it on among themselves or not.
func TestMutexUnderFaults(t *testing.T) {
	for name, strict := range map[string]bool{"tenure": false, "strict": true} {
		t.Run(name, func(t *testing.T) {
			shareUnderFaults(t, task{Resource: "stock", TTL: 300 * time.Millisecond, Callers: 3, Capacity: 1, Strict: strict, Weights: []int{1}}, 1)
		})
	}
}
