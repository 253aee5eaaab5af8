package holdfast_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

// Each primitive does what its model says, under random programs in virtual time.
// The tests of internal/primitivetest play the same programs on documents and on a real Redis.
func TestModels(t *testing.T) {
	primitivetest.RunVirtual(t, 100, func() engine.Engine { return memory.New() })
}
