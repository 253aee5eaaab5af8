package etcd_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/etcd"
)

func TestConformance(t *testing.T) {
	shared := etcd.New(single(t))
	enginetest.Run(t, func(testing.TB) engine.Engine { return shared })
}

func TestStore(t *testing.T) {
	c := single(t)
	castest.Run(t, func(testing.TB) cas.DocumentStore { return etcd.NewStore(c) })
}
