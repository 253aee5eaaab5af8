package redistest

import "os"

// Long reports whether HOLDFAST_LONG is set, as make test-full does: tests at
// scale then take their full size.
func Long() bool { return os.Getenv("HOLDFAST_LONG") != "" }

// Scale returns the size of a test at scale: full in make test-full, usual
// otherwise.
func Scale(usual, full int) int {
	if Long() {
		return full
	}
	return usual
}
