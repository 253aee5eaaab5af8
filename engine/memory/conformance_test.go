package memory_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/memory"
)

func TestConformance(t *testing.T) {
	shared := memory.New()
	enginetest.Run(t, func(testing.TB) engine.Engine { return shared })
}
