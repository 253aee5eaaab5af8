package primitivetest

import (
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/random"
)

// RunVirtual plays count scripts of each program in virtual time, each on a store of its own that
// open returns.
func RunVirtual(t *testing.T, count int, open func() engine.Engine) {
	for _, p := range Programs() {
		t.Run(p.Name, func(t *testing.T) {
			random.Check(t, count, func(rt *random.T) {
				script := p.Draw(rt)
				var wrong []string
				synctest.Test(t, func(*testing.T) { wrong = script.Play(bubbleEnvironment(open())) })
				if len(wrong) > 0 {
					rt.Fatalf("%q", wrong)
				}
			})
		})
	}
}
