package mutant

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/virtual"
)

// All lists the mutants.
func All() []Mutant {
	return slices.Concat(windows(), records(), histories(), queues(), attempts(), quorums(), servers(), documents(), adapters(), lingers(), readers(), failovers(), kinds(), pauses(), controls())
}

// records are bugs of trust windows that the ledger of a real store contradicts: a Redis, a store whose clock clients read,
// and one without.
func records() (live []Mutant) {
	for _, on := range []struct{ store, where string }{{"", "live"}, {"postgres", "on PostgreSQL"}, {"etcd", "on etcd"}} {
		for _, m := range windows()[:4] {
			m.Name, m.World, m.Store, m.Checks = m.Name+", "+on.where, Live, on.store, []string{"ledger"}
			live = append(live, m)
		}
	}
	return live
}

// windows are bugs of trust windows and renewals. The first four are also played on real stores.
func windows() []Mutant {
	return []Mutant{
		{
			Name: "the trust window has no margin", File: "internal/keepalive/window.go", World: virtual.Memory,
			Checks:  []string{"overlap", "inside", "notified", "model"},
			Patches: []Patch{{"return 20*time.Millisecond + ttl/50", "return 0 * ttl"}},
		},
		{
			Name: "the window counts from the reply", File: "acquire_attempt.go", World: virtual.Memory,
			Checks: []string{"overlap", "inside", "notified", "model"},
			Patches: []Patch{{"	ans, err := a.c.engine.Acquire(ctx, a.req)\n",
				"	ans, err := a.c.engine.Acquire(ctx, a.req)\n	sent = time.Now()\n"}},
		},
		{
			Name: "a renewal counts from its reply", File: "internal/keepalive/send_queue.go", World: virtual.Memory,
			Checks: []string{"overlap", "inside", "notified", "model"},
			Limit:  2 * time.Minute,
			Patches: []Patch{{"	errs := s.engine.Renew(ctx, renewals)\n",
				"	errs := s.engine.Renew(ctx, renewals)\n	sent = s.Now()\n"}},
		},
		{
			Name: "a pushed grant counts from its arrival", File: "acquire_attempt.go", World: virtual.Memory,
			Checks: []string{"overlap", "inside", "notified", "model"},
			Patches: []Patch{
				{"left := time.Until(a.acked.Add(w.TTL - keepalive.Margin(w.TTL)))", "left := w.TTL - keepalive.Margin(w.TTL)"},
				{"return a.newGrant(a.acked, w.Token, w.TTL)", "return a.newGrant(time.Now(), w.Token, w.TTL)"},
			},
		},
		{
			Name: "a claim is renewed no sooner than any lease", File: "internal/keepalive/scheduler.go", World: virtual.Memory,
			Checks:  []string{"kept"},
			Patches: []Patch{{"	if took > slack(e.TTL) {\n", "	if delay = 0; took > e.TTL {\n"}},
		},
		{
			Name: "the answer that a lease is not held counts as a failed renewal", File: "internal/keepalive/send_queue.go", World: virtual.Memory,
			Checks:  []string{"end-seen", "ended", "kept", "overlap", "notified"},
			Patches: []Patch{{"		if gone, ok := errors.AsType[*engine.NotHeldError](errs[i]); ok {\n", "		if gone, ok := errors.AsType[*engine.NotHeldError](errs[i]); ok && gone.Cause == 77 {\n"}},
		},
		{
			Name: "the leases of a lost grant do not end", File: "grant_loss.go", World: virtual.Memory,
			Checks:  []string{"end-seen", "overlap", "notified"},
			Patches: []Patch{{"	for _, l := range leases {\n		_ = l.end(why)\n	}\n	free = func()", "	free = func()"}},
		},
		{
			Name: "a lease is handed off after its window has closed", File: "grant_release.go", World: virtual.Memory,
			Checks:  []string{"short"}, // whoever gets it looks at the clock again
			Patches: []Patch{{"h.entry.Window.Left(now) > min(", "h.entry.Window.Left(now) > -time.Hour+min("}},
		},
		{
			Name: "every token is 0", File: "lease.go", World: virtual.Memory, Checks: []string{"tokens", "model"},
			Patches: []Patch{{"func (l *Lease) Token() uint64 { return l.token }", "func (l *Lease) Token() uint64 { return 0 * l.token }"}},
		},
		{
			Name: "every token is 0, live", File: "lease.go", World: Live, Checks: []string{"tokens", "model"},
			Patches: []Patch{{"func (l *Lease) Token() uint64 { return l.token }", "func (l *Lease) Token() uint64 { return 0 * l.token }"}},
		},
		{
			Name: "nobody renews", File: "internal/keepalive/scheduler.go", World: Live, Checks: []string{"kept"},
			Patches: []Patch{{"		first, due = e.firstDue(now)", "		first, _ = e.firstDue(now)"}},
		},
		{
			Name: "nobody renews on PostgreSQL", File: "internal/keepalive/scheduler.go", World: Live, Store: "postgres", Checks: []string{"kept"},
			Patches: []Patch{{"		first, due = e.firstDue(now)", "		first, _ = e.firstDue(now)"}},
		},
		{
			Name: "Err does not look at the clock", File: "lease.go", World: Live, // the bubble's timers are never late
			Checks:  []string{"notified"},
			Patches: []Patch{{"	if l.grant.open() {\n		return nil\n	}\n", "	if true || l.grant.open() {\n		return nil\n	}\n"}},
		},
	}
}

// queues are bugs of the queue in the store.
func queues() []Mutant {
	const file = "internal/queue/queue.go"
	return []Mutant{
		{
			Name: "a newcomer passes the front", File: file, World: virtual.Memory, Checks: []string{"starvation"},
			Patches: []Patch{{"if q.first(r) && q.used+r.Weight <= q.capacity {", "if q.used+r.Weight <= q.capacity {"}},
		},
		{
			Name: "a waiter that does not fit lets those behind it pass", File: "internal/queue/tidy.go", World: virtual.Memory, Checks: []string{"starvation"},
			Patches: []Patch{{"			return // the front keeps its place: no waiter behind it is tried\n",
				"			if q.line.Len() == 1 {\n				return\n			}\n			q.line.MoveToBack(e)\n			if q.line.Front() == e || q.used+q.line.Front().Value.(*Waiter).Weight > q.capacity {\n				return\n			}\n			continue\n"}},
		},
		{
			Name: "a token is given twice", File: file, World: virtual.Memory, Checks: []string{"tokens", "model"},
			Patches: []Patch{{"token := max(q.last+1, uint64(now))", "token := max(q.last, uint64(now))"}},
		},
		{
			Name: "reserved tokens are not set aside", File: file, World: virtual.Memory, Checks: []string{"tokens", "model"},
			Patches: []Patch{{"	q.last = token + reserve\n", "	q.last = token\n"}},
		},
		{
			Name: "a renewal extends the lease of any holder", File: file, World: virtual.Memory, Checks: []string{"ended", "overlap", "notified", "end-seen"},
			Patches: []Patch{{"	h := q.live(id)\n	if h != nil {\n		h.Deadline = max(h.Deadline, now+ttl)\n		heap.Fix(&q.byEnd, h.index)\n		q.keep(h.Deadline)\n	}\n	q.advance(now, \"\", &a)\n	if h != nil {\n		a.Status, a.TTL = Done",
				"	h := q.live(id)\n	for _, other := range q.holders {\n		h = other\n	}\n	if h != nil {\n		h.Deadline = max(h.Deadline, now+ttl)\n		heap.Fix(&q.byEnd, h.index)\n		q.keep(h.Deadline)\n	}\n	q.advance(now, \"\", &a)\n	if h != nil {\n		a.Status, a.TTL = Done"}},
		},
		{
			Name: "a renewal makes an expired lease again", File: file, World: virtual.Memory, Checks: []string{"leftovers", "ended", "end-seen", "overlap", "deadlock"},
			Patches: []Patch{{"	h := q.live(id)\n	if h != nil {\n		h.Deadline = max(h.Deadline, now+ttl)\n		heap.Fix(&q.byEnd, h.index)\n		q.keep(h.Deadline)\n	}\n	q.advance(now, \"\", &a)\n	if h != nil {\n		a.Status, a.TTL = Done",
				"	h := q.live(id)\n	if h == nil && q.used == 0 && q.line.Len() == 0 && q.capacity == 1 {\n		h = q.hold(id, 1, ttl, 0, 0, \"\", now)\n	}\n	if h != nil {\n		h.Deadline = max(h.Deadline, now+ttl)\n		heap.Fix(&q.byEnd, h.index)\n		q.keep(h.Deadline)\n	}\n	q.advance(now, \"\", &a)\n	if h != nil {\n		a.Status, a.TTL = Done"}},
		},
		{
			Name: "a release does not look at the ID", File: file, World: virtual.Memory, Checks: []string{"overlap", "inside", "notified", "model", "kept"},
			Patches: []Patch{{"	had := q.drop(id)\n	if h != nil && !breaking {", "	had := q.drop(id)\n	for _, other := range q.holders {\n		had = had || q.drop(other.ID)\n	}\n	if h != nil && !breaking {"}},
		},
		{
			Name: "a writer does not see readers", File: file, World: virtual.Memory, Checks: []string{"overlap", "inside", "notified", "model"},
			Patches: []Patch{{"if q.first(r) && q.used+r.Weight <= q.capacity {", "if q.first(r) && (q.used+r.Weight <= q.capacity || r.Kind == \"rw\" && q.used < q.capacity) {"}},
		},
		{
			Name: "the capacity is off by one", File: "internal/queue/tidy.go", World: virtual.Memory, Checks: []string{"overlap", "inside", "notified", "model"},
			Patches: []Patch{{"		if q.used+w.Weight > q.capacity {", "		if q.used+w.Weight > q.capacity+1 {"}},
		},
		{
			Name: "expired leases are not removed", File: "internal/queue/tidy.go", World: virtual.Memory, Checks: []string{"deadlock", "errors"},
			Patches: []Patch{{"for len(q.byEnd) > 0 && q.byEnd[0].Deadline <= now {", "for len(q.byEnd) > 0 && q.byEnd[0].Deadline <= 0*now {"}},
		},
		{
			Name: "a withdrawn ID may come back", File: file, World: virtual.Memory, Checks: []string{"leftovers", "deadlock"},
			Patches: []Patch{{"	if withdraw {\n		q.bury(id, Released, now, now)\n	}\n", ""}},
		},
		{
			Name: "a break passes the lease on at once", File: file, World: virtual.Memory, Checks: []string{"overlap", "inside", "model"},
			Patches: []Patch{{"case h != nil && !b.Force:", "case h != nil && !b.Force && now < 0:"}},
		},
		{
			Name: "a lease that is breaking can be renewed", File: file, World: virtual.Memory, Checks: []string{"end-seen", "overlap", "leftovers", "deadlock"},
			Patches: []Patch{{"if h := q.holders[id]; h != nil && !h.Breaking {", "if h := q.holders[id]; h != nil {"}},
		},
		{
			Name: "a store whose clock is ahead does not report it", File: file, World: virtual.Quorum, Checks: []string{"errors", "deadlock"},
			Patches: []Patch{{"		a.Last = max(q.last, uint64(now))\n", "		a.Last = max(q.last, uint64(now)/2)\n"}},
		},
		{
			Name: "a lease that is yielded is not released", File: file, World: virtual.Memory, Checks: []string{"deadlock", "errors", "leftovers", "hand-off", "idle"},
			Patches: []Patch{{"		q.drop(r.Yields)\n", ""}},
		},
		{
			Name: "a mark is not kept", File: "internal/queue/mark.go", World: virtual.Memory, Checks: []string{"slots"},
			Patches: []Patch{{"	if span <= 0 {\n		return\n	}\n", "	if span <= 0 || q.last > 0 {\n		return\n	}\n"}},
		},
		{
			Name: "a waiter keeps its place without polling", File: "internal/queue/tidy.go", World: virtual.Memory, Checks: []string{"deadlock", "errors", "leftovers", "hand-off"},
			Patches: []Patch{
				{"		if w.Seen+q.params.WaiterLife <= now {\n", "		if w.Seen+1000*q.params.WaiterLife <= now {\n"},
				{"			ttl = min(ttl, q.params.ClaimWindow)\n", "			ttl = max(ttl, 60*Second)\n"},
			},
		},
	}
}

// attempts are bugs of a client's requests and of its clean-up.
func attempts() []Mutant {
	return []Mutant{
		{
			Name: "an attempt of unknown outcome is not withdrawn", File: "acquire_attempt.go", World: virtual.Memory, Checks: []string{"leftovers", "deadlock"},
			Limit:   2 * time.Minute,
			Patches: []Patch{{"		Withdraw: a.unsure,\n", "		Withdraw: false,\n"}},
		},
		{
			Name: "a refused try blames the store now and then", File: "acquire_attempt.go", World: virtual.Memory, Checks: []string{"errors"},
			Patches: []Patch{{"			if next, err = a.awaitRecall(ctx, ans, sent); err != nil {\n",
				"			if mathrand.IntN(20) == 0 {\n				return nil, 0, &waitError{a.acquirer.name, ErrUnavailable, nil}\n			}\n			if next, err = a.awaitRecall(ctx, ans, sent); err != nil {\n"}},
		},
		{
			Name: "a release that failed is not tried again", File: "release_queue.go", World: virtual.Memory, Checks: []string{"leftovers", "deadlock"},
			Patches: []Patch{{"if now >= u.until || q", "if true || q"}},
		},
		{
			Name: "the client does not subscribe again after a failure", File: "wakeups.go", World: virtual.Memory, Checks: []string{"hand-off"},
			Patches: []Patch{{"	m.subscribing, m.denied = nil, errors.Is(err, ErrDenied)\n	late :=", "	if m.denied = errors.Is(err, ErrDenied); err == nil {\n		m.subscribing = nil\n	}\n	late :="}},
		},
		{
			Name: "the client does not subscribe for a lease that is not renewed", File: "acquire_attempt.go", World: virtual.Memory, Checks: []string{"end-seen"},
			Patches: []Patch{{"		a.c.wakeups.listenSoon() // no renewal will report a break\n", ""}},
		},
		{
			Name: "waiters do not poll", File: "acquire_attempt.go", World: virtual.Memory, Checks: []string{"deadlock", "errors", "hand-off", "starvation", "idle"},
			Patches: []Patch{{"	d := engine.PollInterval - mathrand.N(pollJitter)", "	d := 1000*engine.PollInterval - mathrand.N(pollJitter)"}, {"		d = min(d, look)\n", "		d = max(d, look)\n"}},
		},
		{
			Name: "an ended attempt requests again with the same ID", File: "acquire_attempt.go", World: virtual.Memory, Checks: []string{"deadlock", "errors", "starvation", "idle"},
			Patches: []Patch{{"	a.req.ID = a.newID()\n	a.queued, a.unsure", "	a.queued, a.unsure"}},
		},
		{
			Name: "a broken lease is not released", File: "grant_broken.go", World: virtual.Memory, Checks: []string{"leftovers", "deadlock"},
			Patches: []Patch{{"	_ = h.releaseStore(ctx, 0) // the store answers \"broken\", or the release is retried in the background\n", ""}},
		},
		{
			Name: "a lost lease is not released in the store", File: "grant_loss.go", World: virtual.Memory, Checks: []string{"leftovers", "deadlock"},
			Patches: []Patch{{"	case why.Cause == LostUnreachable || why.Cause == LostExpired || h.unsure:", "	case false:"}},
		},
	}
}

// quorums are bugs of engine/quorum.
func quorums() []Mutant {
	return []Mutant{
		{
			Name: "the majority is off by one", File: "engine/quorum/quorum.go", World: virtual.Quorum,
			Checks:  []string{"overlap", "inside", "notified", "model", "tokens"},
			Patches: []Patch{{"majority: len(nodes)/2 + 1,", "majority: len(nodes) / 2,"}},
		},
		{
			Name: "grants that came too late are counted", File: "engine/quorum/acquire_ballot.go", World: virtual.Quorum,
			Checks:  []string{"late-grant"}, // the client looks at the clock again
			Patches: []Patch{{"	return ago < ttl-ttl/50-20*time.Millisecond || ago < ttl/2\n", "	return true || ago < ttl/2\n"}},
		},
		{
			Name: "a renewal counts nodes that do not have the lease", File: "engine/quorum/renew.go", World: virtual.Quorum,
			Checks: []string{"end-seen", "overlap", "inside", "notified", "model", "ended"},
			Patches: []Patch{
				{"			x.add(r.node, err)\n", "			if gone := new(engine.NotHeldError); errors.As(err, &gone) {\n				err = nil\n			}\n			x.add(r.node, err)\n"},
				{"	\"sync\"\n", "	\"errors\"\n	\"sync\"\n"},
			},
		},
		{
			Name: "grants of a minority are not withdrawn", File: "engine/quorum/lease_node.go", World: virtual.Quorum,
			Checks:  []string{"leftovers", "deadlock", "errors", "hand-off"},
			Patches: []Patch{{"	t.ended = true\n	t.scheduleSyncs()\n", "	t.ended = true\n"}},
		},
		{
			Name: "a late grant is not withdrawn", File: "engine/quorum/lease_node.go", World: virtual.Quorum,
			Checks:  []string{"leftovers", "deadlock", "errors", "hand-off"},
			Patches: []Patch{{"engine.CauseDeleted})\n	}\n	t.scheduleSync(n)\n", "engine.CauseDeleted})\n	}\n"}},
		},
		{
			Name: "every ballot has the same ID", File: "engine/quorum/attempt.go", World: virtual.Quorum,
			Checks:  []string{"leftovers", "deadlock", "errors", "hand-off", "overlap", "inside", "model", "kept", "notified"},
			Patches: []Patch{{"		return leaseID(r.ID, r.Ballot)\n", "		return leaseID(r.ID, 1)\n"}},
		},
	}
}

// servers are bugs of engine/goredis.
func servers() []Mutant {
	const folder = "engine/goredis/"
	return []Mutant{
		{
			Name: "a lost subscription is not made again", File: folder + "listen.go", World: virtual.Redis,
			Checks:  []string{"hand-off"},
			Patches: []Patch{{"			pinged = false\n			sleep(l.ctx, pause)\n", "			pinged = false\n			return\n"}},
		},
		{
			Name: "last come, first served, live", File: folder + "internal/script/front.lua", World: Live, Checks: []string{"starvation"},
			Patches: []Patch{{"first = call('ZPOPMIN', KEYS[2])", "first = call('ZPOPMAX', KEYS[2])"}},
		},
		{
			Name: "newcomers pass, live", File: folder + "internal/script/admit.lua", World: Live, Checks: []string{"starvation"},
			Patches: []Patch{{"  if isFirst() and used + weight <= capacity then", "  if used + weight <= capacity then"}},
		},
		{
			Name: "the script of a release does not look at the ID", File: folder + "internal/script/release.lua", World: virtual.Redis,
			Checks:  []string{"overlap", "inside", "notified", "model", "kept", "ended", "tokens", "errors"},
			Patches: []Patch{{"local easy = core[1] == ARGV[1] and not ARGV[3]", "local easy = core[1] and not ARGV[3]"}},
		},
		{
			Name: "the script of a renewal does not look at the ID", File: folder + "internal/script/renew.lua", World: virtual.Redis,
			Checks:  []string{"overlap", "inside", "notified", "model", "ended", "end-seen"},
			Patches: []Patch{{"if core[1] == ARGV[1] then\n  local deadline", "if core[3] then\n  local deadline"}},
		},
		{
			Name: "the script of a release sends no wake-up to the next holder", File: folder + "internal/script/front.lua", World: virtual.Redis,
			Checks:  []string{"hand-off"},
			Patches: []Patch{{"(notify(front, digits('g %d %d %s', token, ttl, front)) ~= 0 or string.byte(info, 35) ~= 48)", "true"}},
		},
	}
}
