package redistest

import "os"

// Long reports whether HOLDFAST_LONG is set, as make test-long does: tests at
// scale then take their full size.
func Long() bool { return os.Getenv("HOLDFAST_LONG") != "" }

// Scale returns the size of a test at scale: full in make test-long, usual in
// make test.
func Scale(usual, full int) int {
	if Long() {
		return full
	}
	return usual
}
