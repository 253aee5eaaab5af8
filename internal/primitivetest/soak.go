package primitivetest

import (
	"os"
	"testing"
	"time"
)

// SoakEnv makes the tests under faults, and the random programs on a real Redis, run
// for longer, like 1m each. make soak sets it.
const SoakEnv = "HOLDFAST_SOAK"

// Soak returns for how long a test injects faults: the length in the environment, or
// the short one.
func Soak(t testing.TB, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(SoakEnv)
	if text == "" {
		return short
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", SoakEnv, err)
	}
	return length
}
