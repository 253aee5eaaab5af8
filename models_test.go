package holdfast_test

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/random"
)

// Each primitive does what its model says, under random programs in virtual time.
// The tests of internal/primitivetest play the same programs on a real Redis.
func TestModels(t *testing.T) {
	for _, p := range primitivetest.Programs() {
		t.Run(p.Name, func(t *testing.T) {
			random.Check(t, 100, func(rt *random.T) {
				script := p.Draw(rt)
				var wrong []string
				synctest.Test(t, func(*testing.T) { wrong = script.Play(primitivetest.BubbleEnvironment(memory.New())) })
				if len(wrong) > 0 {
					rt.Fatalf("%q", wrong)
				}
			})
		})
	}
}
