package mutant

// failovers are bugs that show when a replica takes the place of its master.
func failovers() []Mutant {
	excludes := []string{"overlap", "inside", "notified", "model", "ended", "failover"}
	return []Mutant{
		{
			Name:  "renewals do not follow the Sentinels to the new master",
			Holds: "an old master that is not cut off from the Sentinels becomes a replica soon, and refuses; TestSentinelSplit in internal/faulttest finds it",
			Rare:  true, File: "engine/goredis/renew.go", World: Live, Store: "sentinel",
			Checks: excludes, Patches: []Patch{{"	e.follow(ctx)\n	rdb := e.own.client()\n	if e.joins", "	rdb := e.own.client()\n	if e.joins"}},
		},
		{
			Name: "what the replicas have not confirmed counts", File: "engine/goredis/replicas.go", World: Live, Store: "sentinel-replicas",
			Checks: excludes, Patches: []Patch{{"	case int(have) < r.n:", "	case int(have) < 0*r.n:"}},
		},
		{
			Name: "a cluster that is down refuses for good", File: "engine/goredis/errors.go", World: Live, Store: "cluster",
			Checks: []string{"errors"}, Patches: []Patch{{`"CLUSTERDOWN", "TRYAGAIN"`, `"TRYAGAIN"`}},
		},
	}
}
