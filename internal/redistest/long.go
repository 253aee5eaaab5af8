package redistest

import "os"

// Long reports whether HOLDFAST_LONG is set, as make test-full does. Tests at scale then have their
// full size.
func Long() bool { return os.Getenv("HOLDFAST_LONG") != "" }

// Scale returns the size of a test at scale: full if Long reports true, otherwise usual.
func Scale(usual, full int) int {
	if Long() {
		return full
	}
	return usual
}
