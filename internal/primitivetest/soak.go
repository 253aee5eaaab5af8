package primitivetest

import (
	"os"
	"testing"
	"time"
)

// SoakEnv is the environment variable with the duration, such as 1m, of each test under
// faults and of each primitive's random programs on a real Redis. make soak sets it.
const SoakEnv = "HOLDFAST_SOAK"

// Soak returns how long a test injects faults: the value of SoakEnv, by default short.
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
