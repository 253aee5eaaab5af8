package cas_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/enginetest"
)

func TestConformanceWithoutClock(t *testing.T) {
	shared := cas.New(castest.NewMemory(), 0)
	enginetest.Run(t, func(testing.TB) engine.Engine { return shared })
}

func TestConformanceWithClock(t *testing.T) {
	shared := cas.New(&castest.Timed{Memory: castest.NewMemory(), Clock: func() time.Time { return time.Now().Add(-time.Hour) }}, 0)
	enginetest.Run(t, func(testing.TB) engine.Engine { return shared }, enginetest.Estimates())
}
