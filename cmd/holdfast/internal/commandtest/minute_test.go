package commandtest

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/transcript"
)

// TestMinute runs what takes a minute.
func TestMinute(t *testing.T) {
	t.Parallel()
	transcript.OnRedis(t, "testdata/minute", nil)
}
