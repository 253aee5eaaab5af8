package sqlite_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/sqlite"
)

func TestStore(t *testing.T) {
	db := open(t, newFile(t), "")
	castest.Run(t, func(testing.TB) cas.DocumentStore { return sqlite.NewStore(db) })
}

func TestConformance(t *testing.T) {
	db := open(t, newFile(t), "")
	enginetest.Run(t, func(testing.TB) engine.Engine { return sqlite.New(db) })
}
