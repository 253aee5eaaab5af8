package cas_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

func TestMemoryStore(t *testing.T) {
	castest.Run(t, func(testing.TB) cas.DocumentStore { return castest.NewMemory() })
}

func TestTimedStore(t *testing.T) {
	castest.Run(t, func(testing.TB) cas.DocumentStore {
		return &castest.Timed{Memory: castest.NewMemory(), Clock: time.Now}
	})
}
