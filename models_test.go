package holdfast_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/random"
)

// Each primitive does what its model says, under random programs in virtual time.
// The tests of internal/primitivetest play the same programs on a real Redis.
func TestModels(t *testing.T) {
	for _, on := range []struct {
		name  string
		count int // of programs
		open  func() engine.Engine
	}{
		{"memory", 100, func() engine.Engine { return memory.New() }},
		{"documents", 30, func() engine.Engine { return cas.New(castest.NewMemory(), 0) }},
		{"timed documents", 30, func() engine.Engine {
			return cas.New(&castest.Timed{Memory: castest.NewMemory(), Clock: time.Now}, 0)
		}},
	} {
		for _, p := range primitivetest.Programs() {
			t.Run(on.name+"/"+p.Name, func(t *testing.T) {
				random.Check(t, on.count, func(rt *random.T) {
					script := p.Draw(rt)
					var wrong []string
					synctest.Test(t, func(*testing.T) { wrong = script.Play(primitivetest.BubbleEnvironment(on.open())) })
					if len(wrong) > 0 {
						rt.Fatalf("%q", wrong)
					}
				})
			})
		}
	}
}
