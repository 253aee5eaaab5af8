package faulttest

import (
	"os"
	"testing"
	"time"
)

// soakEnv makes the tests under faults, and the random programs, run for longer,
// like 1m each. make soak sets it.
const soakEnv = "HOLDFAST_SOAK"

// soak is how long a test goes on with its faults: the length that the environment
// says, or the short one.
func soak(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(soakEnv)
	if text == "" {
		return short
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", soakEnv, err)
	}
	return length
}
