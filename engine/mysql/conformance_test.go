package mysql_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/mysql"
)

func TestStore(t *testing.T) {
	db := open(t, newDatabase(t))
	castest.Run(t, func(testing.TB) cas.DocumentStore { return mysql.NewStore(db) })
}

func TestConformance(t *testing.T) {
	db := open(t, newDatabase(t))
	enginetest.Run(t, func(testing.TB) engine.Engine { return mysql.New(db) })
}
