package main

import (
	"fmt"
	"strconv"
	"strings"
)

// cores is the CPUs of the server and of the clients; empty means any. With two or
// more CPUs the last one is reserved for the server and all clients share the others,
// the same for every contender. So neither a contender nor the system's scheduler
// decides which processes share a CPU.
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
