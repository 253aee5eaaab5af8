package redistest

import "testing"

// Broken fails a test because of a violation that a slow machine cannot cause: two holders at
// once, a token that is not above the previous one, work that was done twice. .ci/again does not
// repeat such a test.
func Broken(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Errorf("promise broken: "+format, args...)
}
