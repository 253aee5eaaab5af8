package primitivetest_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

// The root's tests run the same programs on memory.
func TestModelsOnDocuments(t *testing.T) {
	for name, open := range map[string]func() engine.Engine{
		"documents": func() engine.Engine { return cas.New(castest.NewMemory(), 0) },
		"timed documents": func() engine.Engine {
			return cas.New(&castest.Timed{Memory: castest.NewMemory(), Clock: time.Now}, 0)
		},
	} {
		t.Run(name, func(t *testing.T) { primitivetest.RunVirtual(t, 30, open) })
	}
}
