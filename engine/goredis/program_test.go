package goredis_test

import (
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/random"
)

// step is one operation of a random program. It is drawn before the program
// runs, so tokens and ballots are relative to the state at that moment.
type step struct {
	After  queue.Time // time that passes first
	Op     string
	ID     string
	Kind   string
	Cap    int
	Weight int
	TTL    queue.Time
	Flag   bool // acquire: queue; release: withdraw; renew: together with others; break: by force
	Res    uint64
	Mark   queue.Time
	Turn   string // of a ballot
	Place  int    // of the turn, in units of 4 µs; 0: none
	Ballot string // relative to what the model knows; see ballot
	Token  string // likewise; see token
	Yields string
	Reason string
}

func (s step) String() string {
	switch s.Op {
	case "acquire":
		return fmt.Sprintf("+%d acquire %s %s:%d w%d ttl=%d queue=%v res=%d mark=%d ballot=%s turn=%q at %d yields=%q reason=%q",
			s.After, s.ID, s.Kind, s.Cap, s.Weight, s.TTL, s.Flag, s.Res, s.Mark, s.Ballot, s.Turn, s.Place, s.Yields, s.Reason)
	case "release":
		return fmt.Sprintf("+%d release %s token=%s withdraw=%v mark=%d", s.After, s.ID, s.Token, s.Flag, s.Mark)
	case "resize":
		return fmt.Sprintf("+%d resize %s token=%s weight=%d", s.After, s.ID, s.Token, s.Weight)
	case "renew":
		return fmt.Sprintf("+%d renew %s token=%s ttl=%d together=%v", s.After, s.ID, s.Token, s.TTL, s.Flag)
	}
	if s.Op == "deafen" {
		return fmt.Sprintf("+%d deafen %s %v", s.After, s.ID, s.Flag)
	}
	if s.Op == "break" {
		return fmt.Sprintf("+%d break %s force=%v reason=%q", s.After, s.ID, s.Flag, s.Reason)
	}
	return fmt.Sprintf("+%d %s %s", s.After, s.Op, s.ID)
}

// Some of them are recallable.
var ids = []string{"c1.a", "c1.b", "c2.a~", "c3", "c4.a b", "c5.é\n%{}~"}

// found is programs in which the scripts, or scripts with a planted bug, differed from the model.
func found() [][]step {
	mutex := func(after queue.Time, id string, ttl queue.Time, yields string) step {
		return step{After: after, Op: "acquire", ID: id, Kind: "mutex", Cap: 1, Weight: 1, TTL: ttl, Flag: yields == "", Ballot: "none", Token: "own", Yields: yields}
	}
	release := func(id string) step { return step{Op: "release", ID: id, Ballot: "none", Token: "own"} }
	renew := func(after queue.Time, id string, ttl queue.Time, batch bool) step {
		return step{After: after * queue.Second, Op: "renew", ID: id, TTL: ttl * queue.Second, Flag: batch, Ballot: "none", Token: "own"}
	}
	brk := func(id string, force bool, reason string) step {
		return step{Op: "break", ID: id, Flag: force, Reason: reason, Ballot: "none", Token: "own"}
	}
	turn := func(id string) step {
		return step{Op: "acquire", ID: id, Kind: "mutex", Cap: 1, Weight: 1, TTL: 3 * queue.Second, Flag: true, Ballot: "last+1", Turn: id + "~q", Place: 1, Token: "own"}
	}
	lease := func(after queue.Time, id, kind string, capacity int, ttl queue.Time) step {
		return step{After: after, Op: "acquire", ID: id, Kind: kind, Cap: capacity, Weight: 1, TTL: ttl, Flag: true, Ballot: "none", Token: "own"}
	}
	// many takes leases that end one after the other, and lets them end.
	many := func(n int, next step) []step {
		var all []step
		for i := range n {
			all = append(all, lease(0, fmt.Sprintf("c%02d", i), "semaphore", n, queue.Second+queue.Time(i)))
		}
		next.After = 10 * queue.Second
		return append(all, next)
	}
	outbid := lease(0, "c1.b", "rw", 4, 3*queue.Second)
	outbid.Ballot = "1"
	yield := mutex(0, "c3", 3*queue.Second, "c1.a")
	yield.Flag = true
	deafen := func(id string, deaf bool) step {
		return step{Op: "deafen", ID: id, Flag: deaf, Ballot: "none", Token: "own"}
	}
	waits := func(id string) step { return mutex(0, id, 50*queue.Second, "") }
	yields := waits("c4.a b")
	yields.Yields = "c1.a"
	heavy := lease(0, "c1.a", "semaphore", 4, 50*queue.Second)
	heavy.Weight = 3
	heavier := heavy
	heavier.ID = "c3"
	unit := lease(0, "c1.b", "semaphore", 4, 50*queue.Second)
	bid := func(id, ballot string) step {
		s := mutex(0, id, 15*queue.Second, "")
		s.Ballot = ballot
		return s
	}
	writer := lease(0, "c3", "rw", portion+9, 3*queue.Second)
	writer.Weight = portion + 9
	// recalls lets a writer wait for recallable readers, more of them than one script looks at.
	recalls := append(many(portion+9, step{})[:portion+9], writer, brk("c01~", false, ""))
	for i := range portion + 9 {
		recalls[i].Kind, recalls[i].ID = "rw", recalls[i].ID+"~"
	}
	return [][]step{
		recalls,
		// The front has stopped listening since its last request: the next one that listens
		// passes it, by a release and by a yield. A front that has polled since is not passed, nor one of which all others are gone.
		{waits("c1.a"), waits("c1.b"), waits("c3"), deafen("c1.b", true), release("c1.a"), release("c3")},
		{waits("c1.a"), waits("c1.b"), waits("c3"), deafen("c1.b", true), yields, release("c3")},
		// One that does not listen yields to itself, also a lease that is breaking.
		{waits("c1.a"), deafen("c4.a b", true), yields, release("c1.a"), release("c4.a b")},
		{waits("c1.a"), deafen("c4.a b", true), brk("c1.a", false, ""), yields, release("c1.a"), release("c4.a b")},
		// One that does not listen when it yields is not taken for one that has stopped.
		{waits("c1.a"), waits("c1.b"), deafen("c4.a b", true), yields, waits("c2.a~"), release("c1.b"), release("c4.a b")},
		{waits("c1.a"), waits("c1.b"), waits("c2.a~"), waits("c3"), deafen("c1.b", true), deafen("c2.a~", true), release("c1.a"), release("c3")},
		{waits("c1.a"), waits("c1.b"), waits("c3"), deafen("c1.b", true), waits("c1.b"), release("c1.a"), release("c1.b")},
		{waits("c1.a"), waits("c1.b"), waits("c3"), deafen("c1.b", true), deafen("c1.b", false), release("c1.a"), release("c1.b")},
		{waits("c1.a"), waits("c1.b"), waits("c3"), deafen("c1.b", true), deafen("c3", true), release("c1.a")},
		{waits("c1.a"), deafen("c1.b", true), waits("c1.b"), waits("c3"), release("c1.a")},
		{mutex(0, "c1.a", queue.Second, ""), waits("c1.b"), waits("c3"), deafen("c1.b", true), {After: queue.Second, Op: "renew", ID: "c2.a~", TTL: queue.Second, Ballot: "none", Token: "own"}},
		// A lease is yielded to the waiter, who gets a wake-up, in the fast path.
		{mutex(0, "c1.a", 50*queue.Second, ""), mutex(queue.Second, "c1.b", 3*queue.Second, ""), yield, release("c1.b"), release("c3")},
		// A turn is withdrawn before a ballot that has it arrives.
		{
			mutex(0, "c1.a", 50*queue.Second, ""),
			{Op: "release", ID: "c1.b~q", Flag: true, Ballot: "none", Token: "0"},
			turn("c1.b"), release("c1.a"),
		},
		// The reason of a break stays when the break is repeated without one, gracefully or by force.
		{mutex(0, "c1.a", 50*queue.Second, ""), brk("c1.a", false, "why"), brk("c1.a", false, ""), mutex(0, "c1.a", 50*queue.Second, "")},
		{mutex(0, "c1.a", 50*queue.Second, ""), brk("c1.a", false, "why"), brk("c1.a", true, ""), mutex(0, "c1.a", 50*queue.Second, "")},
		// More leases have ended than one script clears: of the others, one that has ended is not
		// granted again to its holder, and each script clears its portion.
		many(portion+1, lease(0, "c05", "semaphore", portion+1, 3*queue.Second)),
		many(2*portion+1, brk("c1.a", false, "")),
		// A lease of several ends, and its tombstone counts from when the next is acquired.
		{
			lease(0, "c3", "semaphore", 4, 200*queue.Second), lease(0, "c1.a", "semaphore", 4, 3*queue.Second),
			lease(5*queue.Second, "c1.b", "semaphore", 4, 100*queue.Second),
			{After: 45 * queue.Second, Op: "break", ID: "c4.a b", Ballot: "none", Token: "own"},
			lease(20*queue.Second, "c1.a", "semaphore", 4, 3*queue.Second),
		},
		// A resource whose kind has changed has no line when the first of several enters.
		{mutex(0, "c1.a", 50*queue.Second, ""), release("c1.a"), outbid, lease(queue.Second, "c3", "rw", 4, 3*queue.Second)},
		// The oldest member of the line is an ending of c3 that is over, and c3
		// waits again, behind a waiter that is dead.
		{
			mutex(0, "c3", 1000, ""), mutex(1000, "c1.a", 24*3600*queue.Second, "c1.a"), mutex(0, "c1.b", 1000, ""),
			mutex(60*queue.Second, "c3", 1000, ""), release("c1.a"), release("c1.b"),
		},
		// Three of four units are released and taken again, in the fast paths. One that has a unit asks again.
		{heavy, unit, release("c1.a"), heavier, release("c1.b"), release("c3")},
		{unit, lease(queue.Second, "c1.b", "semaphore", 4, queue.Second)},
		// An ID is withdrawn while another has the lease, and asks for it when it is free.
		{waits("c1.a"), {Op: "release", ID: "c1.b", Flag: true, Ballot: "none", Token: "0"}, release("c1.a"), waits("c1.b")},
		// A ballot that is above the last token, but older than the retention. One that is not above the last token.
		{mutex(0, "c1.a", 24*3600*queue.Second, ""), {After: 125 * queue.Second, Op: "release", ID: "c1.a", Ballot: "none", Token: "own"}, bid("c1.b", "last+1")},
		{waits("c1.a"), release("c1.a"), bid("c1.b", "last")},
		// A lease that is broken is released.
		{waits("c1.a"), brk("c1.a", false, ""), release("c1.a")},
		// A lease that has expired is renewed together with others.
		{waits("c3"), release("c3"), mutex(0, "c1.a", queue.Second, ""), renew(1, "c1.a", 15, true)},
		// A release marks the resource, and the waiters hear of it.
		{waits("c1.a"), waits("c1.b"), {Op: "release", ID: "c1.a", Mark: 5 * queue.Second, Ballot: "none", Token: "own"}},
		// A resource is new: its core has not all fields. Another waits for it, and is
		// passed the lease, in the fast paths.
		{mutex(0, "c1.a", 50*queue.Second, ""), mutex(queue.Second, "c1.b", 3*queue.Second, ""), release("c1.a"), release("c1.b")},
		{mutex(0, "c1.a", 50*queue.Second, ""), release("c1.a"), mutex(queue.Second, "c1.b", 15*queue.Second, ""), renew(1, "c1.b", 15, true), release("c1.b")},
		// The keys, which are kept until 79.6875 s, would outlive a lease by the retention
		// and no more. It is then extended within a spell, in which renew_all does
		// not look at them. The lease is acquired, renewed in each way, acquired again.
		{mutex(0, "c1.a", 15*queue.Second, ""), release("c1.a"), mutex(3800*queue.Millisecond, "c1.b", 15*queue.Second, ""), renew(2, "c1.b", 15, true)},
		{mutex(0, "c1.a", 50*queue.Second, ""), renew(3, "c1.a", 50, false), renew(2, "c1.a", 50, true)},
		{mutex(0, "c1.a", 50*queue.Second, ""), renew(3, "c1.a", 50, true), renew(2, "c1.a", 50, true)},
		{mutex(0, "c1.a", 50*queue.Second, ""), mutex(3*queue.Second, "c1.a", 50*queue.Second, ""), renew(2, "c1.a", 50, true)},
		// A lease is granted in the instant of the one before: its token is not the time at which it began.
		{mutex(0, "c1.a", 50*queue.Second, ""), release("c1.a"), mutex(0, "c1.b", 15*queue.Second, "")},
		// Or it is passed on. These keys are kept until 114.6875 s.
		{
			mutex(0, "c1.a", 50*queue.Second, ""), mutex(47900*queue.Millisecond, "c1.b", 3*queue.Second, ""),
			{After: 1700 * queue.Millisecond, Op: "release", ID: "c1.a", Ballot: "none", Token: "own"}, renew(0, "c1.b", 6, true),
		},
	}
}

// steps draws a program. Most of it is about one kind of resource, so that
// parties meet; some is not.
func steps(most int) *random.Generator[[]step] {
	return random.Custom(func(t *random.T) []step {
		type sort struct {
			kind     string
			capacity int
		}
		sorts := []sort{{"mutex", 1}, {"mutex", 1}, {"rw", 4}, {"semaphore", 2}, {"semaphore", 1}, {"cond", 4}}
		home := random.SampledFrom(sorts).Draw(t, "home")
		parties := random.IntRange(3, len(ids)).Draw(t, "parties")
		n := random.IntRange(1, most).Draw(t, "steps")
		program := make([]step, n)
		for i := range program {
			s := sort{home.kind, home.capacity}
			if random.IntRange(0, 19).Draw(t, "abroad") == 0 {
				s = random.SampledFrom(sorts).Draw(t, "sort")
			}
			program[i] = drawStep(t, s.kind, s.capacity, ids[:parties])
		}
		return program
	})
}

func drawStep(t *random.T, kind string, capacity int, ids []string) step {
	const ms, s = queue.Millisecond, queue.Second
	st := step{
		After: random.SampledFrom([]queue.Time{0, 0, 0, 0, 1, ms, 100 * ms, 900 * ms, s, s, 3*s - 1, 3 * s, 5 * s, 15 * s, 60 * s, 125 * s, 3600 * s}).Draw(t, "after"),
		Op: random.SampledFrom([]string{
			"acquire", "acquire", "acquire", "acquire", "acquire", "acquire",
			"release", "release", "release", "renew", "renew", "resize", "resize", "break", "break", "snapshot", "deafen", "deafen", "deafen",
		}).Draw(t, "op"),
		ID:     random.SampledFrom(ids).Draw(t, "id"),
		Kind:   kind,
		Cap:    capacity,
		Weight: 1,
		TTL:    random.SampledFrom([]queue.Time{ms, 100 * ms, s, 3 * s, 3 * s, 5 * s, 15 * s, 15 * s, 24 * 3600 * s}).Draw(t, "ttl"),
		Flag:   random.IntRange(0, 3).Draw(t, "flag") > 0,
		Ballot: "none",
		Token:  "own",
	}
	switch st.Op {
	case "acquire":
		if capacity > 1 {
			st.Weight = random.SampledFrom([]int{1, 1, 2, capacity, capacity + 1}).Draw(t, "weight")
		} else if random.IntRange(0, 29).Draw(t, "heavy") == 0 {
			st.Weight = 2
		}
		st.Res = random.SampledFrom([]uint64{0, 0, 64, 1, 1 << 31}).Draw(t, "reserve")
		st.Reason = random.SampledFrom(reasons).Draw(t, "reason")
		drawBallot(t, &st)
		if random.IntRange(0, 5).Draw(t, "yield") == 0 {
			st.Yields = random.SampledFrom(ids).Draw(t, "yields")
		}
		if random.IntRange(0, 11).Draw(t, "marks") == 0 {
			st.Mark = random.SampledFrom(marks).Draw(t, "mark")
		}
	case "release":
		if random.IntRange(0, 7).Draw(t, "marks") == 0 {
			st.Mark = random.SampledFrom(marks).Draw(t, "mark")
		}
		if random.IntRange(0, 3).Draw(t, "turn") == 0 {
			st.ID += "~q"
		}
		st.Flag = !st.Flag // withdrawals are the rarer ones
		st.Token = random.SampledFrom([]string{"own", "own", "0", "own+1", "1"}).Draw(t, "token")
	case "break":
		st.Flag = !st.Flag
		st.Reason = random.SampledFrom(reasons).Draw(t, "reason")
		if random.IntRange(0, 2).Draw(t, "unmarks") == 0 {
			st.ID = engine.MarkID
		}
	case "resize":
		st.Weight = random.SampledFrom([]int{1, 1, 2, 0, capacity}).Draw(t, "weight")
		st.Token = random.SampledFrom([]string{"own", "own", "0"}).Draw(t, "token")
	case "renew":
		st.Token = random.SampledFrom([]string{"own", "own", "0", "last+1"}).Draw(t, "token")
	}
	return st
}

// drawBallot makes a ballot of some attempts, and lets most of these wait by a turn.
func drawBallot(t *random.T, st *step) {
	if random.IntRange(0, 3).Draw(t, "ballots") != 0 {
		return
	}
	st.Ballot = random.SampledFrom([]string{"1", "last", "last+1", "now", "now+5", "edge", "far", "max", "last+1", "last+1", "last+1"}).Draw(t, "ballot")
	if random.IntRange(0, 4).Draw(t, "turns") == 0 {
		return
	}
	st.Place = random.IntRange(0, 20).Draw(t, "place")
	if random.IntRange(0, 7).Draw(t, "named") > 0 {
		st.Turn = st.ID + "~q"
	}
}

var reasons = []string{"", "", "why", "two words\nand 3 4", " 0 ", "a\x00 0 "}

// marks are how long a resource is marked.
var marks = []queue.Time{1, queue.Second, 5 * queue.Second, 60 * queue.Second, 30 * 24 * 3600 * queue.Second}

// ballot turns a relative ballot into a number.
func (s step) ballot(last uint64, now queue.Time) uint64 {
	switch s.Ballot {
	case "1":
		return 1
	case "last":
		return last
	case "last+1":
		return last + 1
	case "now":
		return uint64(now)
	case "now+5":
		return uint64(now + 5)
	case "edge":
		return uint64(now + micros(24*time.Hour))
	case "far":
		return uint64(now+micros(24*time.Hour)) + 1
	case "max":
		return math.MaxUint64
	}
	return 0
}

// place is where a turn stands. The scripts distinguish places that are 2 µs apart.
func (s step) place() uint64 {
	if s.Place == 0 {
		return 0
	}
	return uint64(begins.UnixMicro() + 4*int64(s.Place))
}

// begins is when a program begins.
var begins = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// token turns a relative token into a number.
func (s step) token(own, last uint64) uint64 {
	switch s.Token {
	case "0":
		return 0
	case "1":
		return 1
	case "own+1":
		return own + 1
	case "last+1":
		return last + 1
	}
	return own
}

func micros(d time.Duration) queue.Time { return d.Microseconds() }

func duration(t queue.Time) time.Duration { return time.Duration(t) * time.Microsecond }
