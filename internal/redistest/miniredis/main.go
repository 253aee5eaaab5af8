// Command miniredis is a Redis written in Go, as a process that tests start, stop and kill
// as they do a redis-server. It is a module of its own, so that the library's does not
// need what it is made of; redistest.WithMiniredis builds it.
//
// It takes the arguments of a redis-server, of which --port counts, keeps no data, and runs
// until a signal ends it.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

func main() {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true) // TTLs run
	i := slices.Index(os.Args, "--port")
	err := m.StartAddr("127.0.0.1:" + os.Args[i+1])
	if errors.Is(err, syscall.EADDRINUSE) {
		fmt.Println("Address already in use") // as redis-server says it
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	m.Server().SetPreHook(countScripts())
	fmt.Println("Ready to accept connections")
	select {}
}

// countScripts answers INFO commandstats, which miniredis has not, with the number of
// script calls.
func countScripts() server.Hook {
	var calls atomic.Int64
	return func(c *server.Peer, command string, args ...string) bool {
		switch {
		case command == "EVAL" || command == "EVALSHA":
			calls.Add(1)
		case command == "INFO" && slices.Equal(args, []string{"commandstats"}):
			c.WriteBulk("cmdstat_evalsha:calls=" + strconv.FormatInt(calls.Load(), 10) + "\r\n")
			return true
		}
		return false
	}
}
