package redistest

import "testing"

// Broken fails a test because of a violation that a slow machine cannot explain: two holders at
// once, a token that is not above the one before, work that was done twice. .ci/again never runs
// such a test again.
func Broken(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Errorf("promise broken: "+format, args...)
}
