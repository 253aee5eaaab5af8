package sqlite_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/leaktest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(workerEnv); path != "" {
		os.Exit(work(path))
	}
	leaktest.Main(m)
}
