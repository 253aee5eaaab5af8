package main

import (
	"fmt"
	"strconv"
	"strings"
)

// cores says which CPUs the server and the clients run on; empty: anywhere.
// With two CPUs or more the server has the last one to itself and all clients
// share the others, the same for every contender: so neither a contender nor
// the scheduler of the system decides which of them share a CPU.
type cores struct {
	server, clients []int
}

func splitCores(cpus []int) cores {
	if len(cpus) < 2 {
		return cores{}
	}
	last := len(cpus) - 1
	return cores{server: cpus[last:], clients: cpus[:last]}
}

func (c cores) String() string {
	if len(c.server) == 0 {
		return "server and clients on any CPU"
	}
	return fmt.Sprintf("server on CPU %v, all clients on CPU %v", c.server[0], list(c.clients))
}

func list(cpus []int) string {
	var s []string
	for _, c := range cpus {
		s = append(s, strconv.Itoa(c))
	}
	return strings.Join(s, ",")
}

func parseList(text string) (cpus []int) {
	for s := range strings.SplitSeq(text, ",") {
		if n, err := strconv.Atoi(s); err == nil {
			cpus = append(cpus, n)
		}
	}
	return cpus
}
