package redistest

import "testing"

// Broken fails a test since a promise that no machine is too slow for was broken: two inside
// at once, a token that is not above the one before, work that was done twice. .ci/again
// never excuses it.
func Broken(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Errorf("promise broken: "+format, args...)
}
