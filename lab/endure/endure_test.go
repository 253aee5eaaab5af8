package endure_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/lab/endure"
	"github.com/holdfast-go/holdfast/lab/process"
)

// A run as small as it can be and show each work, each end of a visitor and each kind of failover.
var plan = endure.Plan{For: 28 * time.Second, Minute: 4 * time.Second, Population: 300, Seed: 1}

func TestMain(m *testing.M) {
	logging.Disable() // of dials to servers that a fault has killed
	if process.Serve(endure.Catalog()) {
		return
	}
	var given endure.Plan
	given.Flags(flag.CommandLine)
	if flag.Parse(); given != (endure.Plan{}) {
		plan = given
	}
	os.Exit(m.Run())
}

// Nothing grows in a client that works for long, under failovers.
func TestEndure(t *testing.T) {
	t.Cleanup(func() { leaktest.Check(t) })
	endure.Run(t, plan)
}
