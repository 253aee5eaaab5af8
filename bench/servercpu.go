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

// serverCPU compares what a pair costs the server with the simplest lock: by the
// CPU time of the server process while pairs come in pipelines, so that it works
// all the time and the network weighs little; and by its command statistics
// while one caller locks and unlocks, where the time of a script includes what
// it calls.
func serverCPU(e *env) (result, error) {
	r := result{Unit: "µs of server time for a pair"}
	rdb := e.server.Client()
	defer rdb.Close()
	scripts, err := loadScripts(e, rdb)
	if err != nil {
		return r, err
	}
	all, err := contenders(
		func() (*contender, error) { return setFloor(e) },
		func() (*contender, error) { return holdfastMutex(e, "cpu") },
	)
	if err != nil {
		return r, err
	}
	pipelined, stats := map[string][]float64{}, map[string][]float64{}
	var names []string
	for _, c := range all {
		defer c.done()
		names = append(names, c.name)
		if err := repeat(e, c, e.slice, nil); err != nil {
			return r, err
		}
	}
	for range e.rounds {
		for i, c := range all {
			cpu, err := e.pipelinedCPU(rdb, []func(redis.Pipeliner){scripts.bare, scripts.holdfast}[i])
			if err != nil {
				return r, err
			}
			pipelined[c.name] = append(pipelined[c.name], cpu)
			usec, err := e.commandTime(rdb, c)
			if err != nil {
				return r, err
			}
			stats[c.name] = append(stats[c.name], usec)
		}
	}
	r.Rows = rowsOf(names, pipelined)
	byStats := rowsOf(names, stats)
	for i := range byStats {
		byStats[i].Name += ", by command statistics"
	}
	r.Rows = append(r.Rows, byStats...)
	r.atMost("holdfast / SET NX PX + compare-and-delete", r.ratio("holdfast"), 3.5)
	return r, nil
}

// pipelinedCPU is the CPU time of the server process for a pair.
func (e *env) pipelinedCPU(rdb *redis.Client, pair func(redis.Pipeliner)) (float64, error) {
	const batches, depth = 40, 50
	before := e.server.CPU()
	for range batches {
		pipe := rdb.Pipeline()
		for range depth {
			pair(pipe)
		}
		if _, err := pipe.Exec(e.ctx); err != nil {
			return 0, err
		}
	}
	return float64((e.server.CPU() - before).Nanoseconds()) / 1000 / (batches * depth), nil
}

// commandTime is what the server counts for the commands of a pair.
func (e *env) commandTime(rdb *redis.Client, c *contender) (float64, error) {
	if err := rdb.ConfigResetStat(e.ctx).Err(); err != nil {
		return 0, err
	}
	pairs := 0
	if err := repeat(e, c, e.slice, &pairs); err != nil {
		return 0, err
	}
	calls, usec, err := commandStats(e.ctx, rdb)
	if err != nil {
		return 0, err
	}
	// Only what clients sent: what scripts called is part of EVALSHA.
	own := usec["evalsha"]
	if calls["evalsha"] <= pairs { // the other half of a bare pair is a SET
		own += usec["set"]
	}
	return own / float64(pairs), nil
}
