package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/random"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The scripts must behave exactly as package queue says: the same random
// programs run on both, in virtual time, and every answer, every wake-up and
// the state at the end are compared.

func TestScriptsFollowTheSpecOnRedis(t *testing.T) {
	server := redistest.Start(t)
	differential(t, server.Client(), time.Millisecond, 2500, 30)
}

func TestScriptsFollowTheSpecOnMiniredis(t *testing.T) {
	differential(t, redistest.StartMiniredis(t).Client(), time.Second, 250, 20)
}

// differential runs so many programs of so many steps at most, two fifths of them but in
// the full size.
func differential(t *testing.T, rdb *redis.Client, slack time.Duration, programs, most int) {
	d := &duel{
		rdb: rdb, slack: slack,
		engine: goredis.New(rdb, goredis.WithRetention(time.Minute), goredis.WithFragments(virtual())),
	}
	d.engine.Reaches(func(_, id string) bool { return !d.deaf[id] })
	for _, p := range found() {
		if err := d.run(p); err != nil {
			t.Fatalf("%v: %v", p, err)
		}
	}
	program := steps(most)
	random.Check(t, redistest.Scale(programs*2/5, programs), func(t *random.T) {
		p := program.Draw(t, "program")
		if err := d.run(p); err != nil {
			t.Fatalf("%v", err)
		}
	})
}

// portion is small, so that few parties use it up.
const portion = 5

// virtual makes the time and the wake-ups of the scripts virtual.
func virtual() map[string]string {
	return map[string]string{
		"PORTION": strconv.Itoa(portion), "FEW_FORGOTTEN": "2",
		"clock":  "local now = tonumber(call('GET', 'virtual:now'))",
		"notify": "--#include deaf\nlocal function notify(id, message) return deaf(id) and 0 or call('RPUSH', 'virtual:wakes', message) end",
		"deaf":   "local function deaf(id) return call('SISMEMBER', 'virtual:deaf', id) == 1 end",
	}
}

// duel is the scripts and the model, side by side.
type duel struct {
	rdb    *redis.Client
	engine *goredis.Engine

	model  *queue.Queue
	res    engine.Resource
	now    queue.Time
	own    map[string]uint64 // the last token that each ID was given
	wakes  []string          // what the model would have sent
	deaf   map[string]bool   // IDs that no wake-up reaches
	round  int
	tidies int           // of the engine so far
	slack  time.Duration // how exact the server's expiries are
}

// params are those of the model. The fragment "deaf" has the same IDs.
func (d *duel) params() queue.Params {
	p := params()
	p.Deaf = func(id string) bool { return d.deaf[id] }
	return p
}

func params() queue.Params {
	return queue.Params{
		WaiterLife: micros(engine.WaiterLife), ClaimWindow: micros(engine.ClaimWindow),
		Retention: micros(time.Minute), BallotAhead: micros(engine.MaxBallotAhead), Portion: portion,
	}
}

func (d *duel) run(program []step) error {
	ctx := context.Background()
	if err := d.rdb.FlushDB(ctx).Err(); err != nil {
		return err
	}
	d.round++
	// The expiries that the scripts set must lie ahead of the real clock, and
	// the same program must give the same tokens.
	d.now = begins.UnixMicro()
	d.res = engine.Resource{Prefix: "p", Name: fmt.Sprintf("{%%}%d", d.round)}
	d.deaf = map[string]bool{}
	d.model, d.own, d.wakes = queue.New(d.params(), d.now), map[string]uint64{}, nil
	if err := d.rdb.Set(ctx, "virtual:now", d.now, 0).Err(); err != nil {
		return err
	}
	for i, s := range program {
		if err := d.pass(ctx, s.After); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if err := d.step(ctx, s); err != nil {
			return fmt.Errorf("step %d: %v: %w", i, s, err)
		}
	}
	return errors.Join(d.compareSnapshots(ctx), d.comparePeeks(ctx), d.compareWakes(ctx), d.checkExpiries(ctx), d.checkFields(ctx))
}

// core is the key of the core; the name was chosen to need escaping.
func (d *duel) core() string { return fmt.Sprintf("p:{%%7B%%25%%7D%d}", d.round) }

// pass lets time pass. If the keys would be gone by then they are deleted, and
// the model must agree that nothing is lost.
func (d *duel) pass(ctx context.Context, after queue.Time) error {
	if after == 0 {
		return nil
	}
	d.now += after
	if after >= params().Retention {
		keep, err := d.rdb.HGet(ctx, d.core(), "keep").Int64()
		if err != nil && err != redis.Nil {
			return err
		}
		if err == nil && keep <= d.now {
			if !d.model.Forgettable(d.now) {
				return fmt.Errorf("the keys are gone at %d, too early", d.now)
			}
			c := d.core()
			d.rdb.Del(ctx, c, c+":line")
			d.model = queue.New(d.params(), d.now)
		}
	}
	return d.rdb.Set(ctx, "virtual:now", d.now, 0).Err()
}

func (d *duel) step(ctx context.Context, s step) error {
	last := d.model.Snapshot(d.now).Last
	var want queue.Answer
	var err error
	switch s.Op {
	case "acquire":
		ballot := s.ballot(last, d.now)
		want = d.acquire(queue.Request{
			ID: s.ID, Kind: s.Kind, Capacity: s.Cap, Weight: s.Weight, TTL: s.TTL, Queue: s.Flag,
			Reserve: s.Res, Ballot: ballot, Reason: s.Reason, Yields: s.Yields, Mark: s.Mark,
			Turn: s.Turn, Place: s.place(),
		})
		var got engine.Answer
		got, err = d.engine.Acquire(ctx, engine.Request{
			Resource: d.res, ID: s.ID, Kind: engine.Kind(s.Kind), Capacity: s.Cap, Weight: s.Weight,
			TTL: duration(s.TTL), Queue: s.Flag, Reserve: s.Res, Ballot: ballot, Reason: s.Reason,
			Yields: engine.Held{ID: s.Yields}, Mark: duration(s.Mark), Turn: engine.Held{ID: s.Turn, Token: s.place()},
		})
		if expected := d.expected(want); !reflect.DeepEqual(got, expected) {
			return fmt.Errorf("got  %+v\nwant %+v", got, expected)
		}
		if want.Status == queue.Granted {
			d.own[s.ID] = want.Token
		}
	case "release":
		token := s.token(d.own[s.ID], last)
		want = d.model.Release(s.ID, token, s.Flag, s.Mark, d.now)
		err = d.engine.Release(ctx, engine.Release{Resource: d.res, Held: engine.Held{ID: s.ID, Token: token}, Withdraw: s.Flag, Mark: duration(s.Mark)})
	case "renew":
		token := s.token(d.own[s.ID], last)
		want = d.model.Renew(s.ID, token, s.TTL, d.now)
		err = d.renew(ctx, s, token)
	case "resize":
		token := s.token(d.own[s.ID], last)
		want = d.model.Resize(s.ID, token, s.Weight, d.now)
		err = d.engine.Resize(ctx, d.res, engine.Held{ID: s.ID, Token: token}, s.Weight)
	case "break":
		want = d.model.Break(queue.Break{ID: s.ID, Force: s.Flag, Reason: s.Reason}, d.now)
		err = d.engine.Break(ctx, d.res, engine.Break{ID: s.ID, Force: s.Flag, Reason: s.Reason})
	case "deafen":
		d.deaf[s.ID] = s.Flag
		if s.Flag {
			return d.rdb.SAdd(ctx, "virtual:deaf", s.ID).Err()
		}
		return d.rdb.SRem(ctx, "virtual:deaf", s.ID).Err()
	case "snapshot":
		return errors.Join(d.compareSnapshots(ctx), d.comparePeeks(ctx))
	}
	d.note(want)
	if s.Op == "break" && want.Status == queue.Done {
		wake := "b " + s.ID
		if s.Reason != "" {
			wake = fmt.Sprintf("r %d %s %s", len(s.ID), s.ID, s.Reason)
		}
		d.wake(s.ID, wake)
	}
	if err := d.tidied(want); err != nil {
		return err
	}
	if expected := failure(want); !sameError(err, expected) {
		return fmt.Errorf("got error %v, want %v", err, expected)
	}
	return d.checkKeep(ctx)
}

// acquire calls the model as the engine calls the scripts: until nothing is left that
// could change the answer.
func (d *duel) acquire(r queue.Request) queue.Answer {
	for {
		a := d.model.Acquire(r, d.now)
		if !a.More || a.Status == queue.Granted {
			return a
		}
		d.note(a)
	}
}

// tidied lets the model tidy up as often as the engine did, which it must have if
// there was more to do.
func (d *duel) tidied(a queue.Answer) error {
	before := d.tidies
	for d.tidies = d.engine.Settle(); before < d.tidies; before++ {
		a = d.model.Tidy(d.now)
		d.note(a)
	}
	if a.More {
		return errors.New("there is more to tidy up")
	}
	return nil
}

// note records the wake-ups of an answer.
func (d *duel) note(a queue.Answer) {
	for _, g := range a.Grants {
		d.own[g.ID] = g.Token
		d.wake(g.ID, fmt.Sprintf("g %d %d %s", g.Token, g.TTL, g.ID))
	}
	for _, id := range a.Called {
		d.wake(id, "c "+id)
	}
	for _, id := range a.Dropped {
		d.wake(id, fmt.Sprintf("m %d %s", a.Left, id))
	}
	for _, id := range a.Wanted {
		d.wake(id, "w "+id)
	}
}

// wake records a wake-up that reaches an ID.
func (d *duel) wake(id, message string) {
	if !d.deaf[id] {
		d.wakes = append(d.wakes, message)
	}
}

// renew renews by itself, or together with leases that there are not.
func (d *duel) renew(ctx context.Context, s step, token uint64) error {
	all := []engine.Renewal{{Resource: d.res, Held: engine.Held{ID: s.ID, Token: token}, TTL: duration(s.TTL)}}
	for i := 0; s.Flag && i < 4; i++ {
		none := all[0]
		none.Resource.Name = fmt.Sprint(i)
		all = append(all, none)
	}
	errs := d.engine.Renew(ctx, all)
	for _, err := range errs[1:] {
		if !sameError(err, &engine.NotHeldError{Cause: engine.CauseDeleted}) {
			return fmt.Errorf("a lease that there is not: %v", err)
		}
	}
	return errs[0]
}

// expected puts the model's answer to Acquire into the words of the contract.
func (d *duel) expected(a queue.Answer) engine.Answer {
	switch a.Status {
	case queue.Granted:
		return engine.Answer{Status: engine.Granted, Token: a.Token, TTL: duration(a.TTL), Last: a.Last}
	case queue.Queued:
		return engine.Answer{Status: engine.Queued, Position: a.Position, Next: duration(a.Next), Last: a.Last}
	case queue.Busy:
		return engine.Answer{Status: engine.Busy, Next: duration(a.Next), Waiters: a.Waiters, Position: a.Position, Last: a.Last, Holder: d.holder(a.Holder)}
	case queue.Marked:
		return engine.Answer{Status: engine.Marked, Next: duration(a.Next)}
	case queue.Outbid:
		return engine.Answer{Status: engine.Outbid, Last: a.Last, Next: duration(a.Next)}
	}
	return engine.Answer{}
}

func (d *duel) holder(h queue.Holder) engine.Holder {
	if h.ID == "" {
		return engine.Holder{}
	}
	return engine.Holder{
		ID: h.ID, Client: engine.Client{ID: engine.ClientOf(h.ID)}, Reason: h.Reason, Weight: h.Weight,
		Token: h.Token, Since: time.UnixMicro(h.Since), TTL: duration(max(0, h.Deadline-d.now)), Breaking: h.Breaking,
	}
}

func failure(a queue.Answer) error {
	switch a.Status {
	case queue.NotHeld:
		return &engine.NotHeldError{Cause: engine.Cause(a.Cause), Reason: a.Reason}
	case queue.Ended:
		return &engine.EndedError{Cause: engine.Cause(a.Cause), Reason: a.Reason}
	case queue.Mismatch:
		return engine.ErrMismatch
	case queue.TooHeavy:
		return engine.ErrTooHeavy
	case queue.TooFar:
		return engine.ErrBallot
	}
	return nil
}

func sameError(got, want error) bool { return reflect.DeepEqual(got, want) }

func (d *duel) compareSnapshots(ctx context.Context) error {
	got, err := d.engine.Snapshot(ctx, d.res)
	if err != nil {
		return err
	}
	q := d.model.Snapshot(d.now)
	want := engine.Snapshot{Resource: d.res, Kind: engine.Kind(q.Kind), Capacity: q.Capacity, Token: q.Last}
	if q.Marked > 0 {
		want.Marked, want.MarkedBy = duration(q.Marked-d.now), d.holder(q.MarkedBy)
	}
	for _, h := range q.Holders {
		want.Holders = append(want.Holders, d.holder(h))
	}
	waiter := func(w queue.Waiter, silent time.Duration) engine.Waiter {
		return engine.Waiter{
			ID: w.ID, Client: engine.Client{ID: engine.ClientOf(w.ID)}, Reason: w.Reason, Weight: w.Weight,
			Since: time.UnixMicro(w.Since), Silent: silent,
		}
	}
	for _, w := range q.Waiters {
		want.Waiters = append(want.Waiters, waiter(w, 0))
	}
	for _, w := range q.Dead {
		want.Dead = append(want.Dead, waiter(w, duration(d.now-w.Seen)))
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("snapshot\ngot  %+v\nwant %+v", got, want)
	}
	return nil
}

// comparePeeks: a duel has fewer parties than a Brief has room for.
func (d *duel) comparePeeks(ctx context.Context) error {
	got, err := d.engine.Peek(ctx, d.res)
	if err != nil {
		return err
	}
	q := d.model.Peek(engine.MaxPeeked, d.now)
	want := engine.Brief{Resource: d.res, Kind: engine.Kind(q.Kind), Capacity: q.Capacity, Token: q.Last, More: q.More, Waiting: q.Waiting}
	if q.Marked > 0 {
		want.Marked = duration(q.Marked - d.now)
	}
	for _, h := range q.Holders {
		want.Holders = append(want.Holders, d.holder(h))
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("peek\ngot  %+v\nwant %+v", got, want)
	}
	return nil
}

func (d *duel) compareWakes(ctx context.Context) error {
	got, err := d.rdb.LRange(ctx, "virtual:wakes", 0, -1).Result()
	if err != nil {
		return err
	}
	if g, w := strings.Join(got, "\n"), strings.Join(d.wakes, "\n"); g != w {
		return fmt.Errorf("wake-ups\ngot  %q\nwant %q", g, w)
	}
	return nil
}

// checkKeep: the state is kept at least as long as the model needs it.
func (d *duel) checkKeep(ctx context.Context) error {
	keep, err := d.rdb.HGet(ctx, d.core(), "keep").Int64()
	if err == redis.Nil {
		return nil // nothing was stored yet
	}
	if err == nil && !d.model.Forgettable(keep) {
		err = fmt.Errorf("the state is kept until %d only", keep)
	}
	return err
}

// checkFields: a reason of a break is kept no longer than its tombstone, and a description no
// longer than its lease or wait.
func (d *duel) checkFields(ctx context.Context) error {
	fields, err := d.rdb.HKeys(ctx, d.core()).Result()
	if err != nil {
		return err
	}
	line, err := d.rdb.ZRange(ctx, d.core()+":line", 0, -1).Result()
	if err != nil {
		return err
	}
	for _, field := range fields {
		if id, ok := strings.CutPrefix(field, "!"); ok && !slices.Contains(line, "b"+id) {
			return fmt.Errorf("a reason of %q without a tombstone", id)
		}
		if id, ok := strings.CutPrefix(field, "@"); ok && !slices.Contains(line, "q"+id) && !slices.Contains(line, "h"+id) {
			return fmt.Errorf("%q is described, and neither holds nor waits", id)
		}
	}
	return nil
}

// checkExpiries: every key of the resource expires when the core says so. A line that has nothing but the anchor
// of an earlier kind may expire before.
func (d *duel) checkExpiries(ctx context.Context) error {
	keep, err := d.rdb.HGet(ctx, d.core(), "keep").Int64()
	if err == redis.Nil {
		return nil
	}
	for _, suffix := range []string{"", ":line"} {
		from, to, err := d.expiry(ctx, d.core()+suffix)
		if err != nil {
			return err
		}
		want := time.Duration(keep) * time.Microsecond
		late, early := from > want+d.slack, to < want-d.slack
		if early && suffix == ":line" {
			entries := d.rdb.ZCard(ctx, d.core()+suffix).Val()
			anchors := d.rdb.ZCount(ctx, d.core()+suffix, "0", "0").Val()
			early = entries > anchors
		}
		if from != -2 && (late || early) {
			return fmt.Errorf("key %q expires at %d ms to %d ms, want %d µs", suffix, from.Milliseconds(), to.Milliseconds(), keep)
		}
	}
	return err
}

// expiry returns between which instants a key expires, or -2 if there is none.
// Before Redis 7 a server says only how long a key has left.
func (d *duel) expiry(ctx context.Context, key string) (from, to time.Duration, err error) {
	at, err := d.rdb.PExpireTime(ctx, key).Result()
	if !redis.HasErrorPrefix(err, "unknown command") {
		return at, at, err
	}
	var before, after *redis.TimeCmd
	var left *redis.DurationCmd
	_, err = d.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		before, left, after = p.Time(ctx), p.PTTL(ctx, key), p.Time(ctx)
		return nil
	})
	if err != nil || left.Val() == -2 {
		return -2, -2, err
	}
	instant := func(t *redis.TimeCmd) time.Duration { return time.Duration(t.Val().UnixNano()) + left.Val() }
	return instant(before).Truncate(time.Millisecond), instant(after), nil
}
