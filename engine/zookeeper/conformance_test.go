package zookeeper

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/enginetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	conn := connect(t, 10*time.Second, sharedServer(t).Addr())
	castest.Run(t, func(testing.TB) cas.DocumentStore { return newStore(conn) })
}

func TestConformance(t *testing.T) {
	t.Parallel()
	shared := New(connect(t, 10*time.Second, sharedServer(t).Addr()))
	enginetest.Run(t, func(testing.TB) engine.Engine { return shared })
}
