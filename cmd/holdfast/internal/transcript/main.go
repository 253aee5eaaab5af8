package transcript

import (
	"flag"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/stores"
)

// allDrivers is set for transcripts that run on stores other than Redis.
const allDrivers = "TEST_ALL_DRIVERS"

// Main runs the tests of a package, without a terminal. In a process that a transcript has started it runs the
// program instead: command, which has the drivers of all stores on a Setting that is not a Redis, or one of others.
func Main(m *testing.M, command func(args []string, drivers ...store.Driver) int, others map[string]func()) {
	if strings.HasSuffix(os.Args[0], ".test") {
		leaveTerminal()
		if signal.Ignored(syscall.SIGHUP) { // as under nohup; what is caught here, commands find as it is by default
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
	}
	run := func() {
		var drivers []store.Driver
		if os.Getenv(allDrivers) != "" {
			drivers = stores.Drivers()
		}
		os.Exit(command(os.Args, drivers...))
	}
	// Transcripts wait for most of their time.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	programs := map[string]func(){"holdfast": run, guard.Name: run, guard.ClientName: run, demo.NodeName: run}
	maps.Copy(programs, others)
	testscript.Main(m, programs)
}

// leaveTerminal detaches the tests from the terminal, so that they run the same way without one.
func leaveTerminal() {
	if tty, err := os.Open("/dev/tty"); err == nil {
		_ = unix.IoctlSetInt(int(tty.Fd()), unix.TIOCNOTTY, 0)
		tty.Close()
	}
}
