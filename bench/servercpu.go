package main

import (
	"github.com/redis/go-redis/v9"
)

// sentCommands counts what clients sent, without what scripts called and
// without the counting itself.
func sentCommands(e *env, rdb *redis.Client) (int, error) {
	calls, _, err := commandStats(e.ctx, rdb)
	if err != nil {
		return 0, err
	}
	return calls["evalsha"] + calls["eval"] + calls["set"] + calls["publish"] + calls["ping"], nil
}

// serverCPU compares the server's own time for a pair with that of the simplest
// lock: by its command statistics, where the time of a script includes what it
// calls. The CPU of the whole server process is shown as well; there the network
// weighs most, and it is the same for both.
func serverCPU(e *env) (result, error) {
	r := result{Unit: "µs of server time in commands, for a pair"}
	all, err := contenders(
		func() (*contender, error) { return setFloor(e) },
		func() (*contender, error) { return holdfastMutex(e, "cpu") },
	)
	if err != nil {
		return r, err
	}
	rdb := e.server.Client()
	defer rdb.Close()
	figures := map[string][]float64{}
	process := map[string][]float64{}
	var names []string
	for _, c := range all {
		defer c.done()
		names = append(names, c.name)
		if err := repeat(e, c, e.slice, nil); err != nil {
			return r, err
		}
	}
	for range e.rounds {
		for _, c := range all {
			if err := rdb.ConfigResetStat(e.ctx).Err(); err != nil {
				return r, err
			}
			pairs := 0
			cpu := e.server.CPU()
			if err := repeat(e, c, e.slice, &pairs); err != nil {
				return r, err
			}
			_, usec, err := commandStats(e.ctx, rdb)
			if err != nil {
				return r, err
			}
			// Only what clients sent: what scripts called is part of EVALSHA.
			own := usec["evalsha"]
			if c == all[0] {
				own += usec["set"]
			}
			figures[c.name] = append(figures[c.name], own/float64(pairs))
			process[c.name] = append(process[c.name], float64((e.server.CPU()-cpu).Microseconds())/float64(pairs))
		}
	}
	r.Rows = rowsOf(names, figures)
	whole := rowsOf(names, process)
	for i := range whole {
		whole[i].Name += ", whole process"
	}
	r.Rows = append(r.Rows, whole...)
	r.atMost("holdfast / SET NX PX + compare-and-delete", r.ratio("holdfast"), 3.5)
	return r, nil
}
