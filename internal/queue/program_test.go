package queue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/random"
)

// quick are timing rules in a few ticks, so that random programs meet all edges.
var quick = queue.Params{WaiterLife: 4, ClaimWindow: 3, Retention: 12, BallotAhead: 40}

// chooser makes the choices of a random program: a number from 0 to n-1.
type chooser interface{ pick(n int) int }

// program runs random operations under an audit, and remembers them in words.
type program struct {
	*audit
	chooser
	said  strings.Builder
	born  [8]int     // how many IDs each slot has had
	floor queue.Time // the clock does not step back beyond this

	latest queue.Time
}

func newProgram(c chooser) *program {
	return &program{audit: newAudit(quick, 1000), chooser: c, floor: 900}
}

// id picks a holder ID out of a few. One that has ended is used for as long as
// it is refused, and never again: clients do not reuse IDs.
func (p *program) id() string {
	slot := p.pick(len(p.born))
	id := fmt.Sprintf("%c%d", 'a'+slot, p.born[slot])
	if f, ok := p.ended[id]; ok && f.until <= p.latest {
		p.born[slot]++
		id = fmt.Sprintf("%c%d", 'a'+slot, p.born[slot])
	}
	return id
}

func (p *program) request() queue.Request {
	r := queue.Request{ID: p.id(), Kind: "semaphore", Capacity: 3, Weight: 1 + p.pick(3), TTL: queue.Time(1 + p.pick(8)), Queue: p.pick(4) > 0}
	if p.pick(12) == 0 {
		r.Mark = queue.Time(1 + p.pick(8))
	}
	switch p.pick(16) {
	case 0:
		r.Capacity = 1 + p.pick(4)
	case 1:
		r.Kind, r.Weight, r.Capacity = "mutex", 1, 1
	case 2, 3:
		r.Ballot = p.highest + uint64(p.pick(60))
	case 4:
		r.Ballot = uint64(1 + p.pick(1000))
	case 5, 6:
		r.Reserve = uint64(p.pick(30))
	case 7, 8:
		r.Yields = p.id()
	}
	return r
}

func (p *program) step() {
	id, token := "", uint64(0)
	if p.pick(3) > 0 {
		p.now += queue.Time(p.pick(4))
	}
	p.latest = max(p.latest, p.now)
	switch op := p.pick(20); op {
	default:
		r := p.request()
		fmt.Fprintf(&p.said, "%d acquire %+v\n", p.now, r)
		p.acquire(r)
		return
	case 0, 1:
		id, token = p.id(), p.token()
		fmt.Fprintf(&p.said, "%d renew %s %d\n", p.now, id, token)
		p.renew(id, token, queue.Time(1+p.pick(8)))
	case 2, 3, 4:
		id = p.id()
		token = p.tokens[id]
		fmt.Fprintf(&p.said, "%d release %s %d\n", p.now, id, token)
		p.release(id, token, false, 0)
	case 5:
		id, token = p.id(), p.token()
		fmt.Fprintf(&p.said, "%d release %s %d\n", p.now, id, token)
		p.release(id, token, false, 0)
	case 6:
		id = p.id()
		fmt.Fprintf(&p.said, "%d withdraw %s\n", p.now, id)
		p.release(id, 0, true, 0)
	case 7:
		id = p.id()
		force := p.pick(3) == 0
		reason := []string{"", "why", "hangs"}[p.pick(3)]
		fmt.Fprintf(&p.said, "%d break %s force %v reason %q\n", p.now, id, force, reason)
		p.breaks(queue.Break{ID: id, Force: force, Reason: reason})
	case 8:
		p.jump()
	case 9:
		id = p.id()
		token, mark, withdraw := p.tokens[id], queue.Time(1+p.pick(20)), p.pick(4) == 0
		fmt.Fprintf(&p.said, "%d release %s %d mark %d withdraw %v\n", p.now, id, token, mark, withdraw)
		p.release(id, token, withdraw, mark)
	case 10:
		if p.pick(4) == 0 {
			fmt.Fprintf(&p.said, "%d break mark\n", p.now)
			p.breaks(queue.Break{ID: queue.MarkID})
		}
	case 11, 12:
		id, token = p.id(), p.token()
		weight := p.pick(4)
		fmt.Fprintf(&p.said, "%d resize %s %d to %d\n", p.now, id, token, weight)
		p.resize(id, token, weight)
	}
}

// token is any token: none, one of an ID, or one never given.
func (p *program) token() uint64 {
	switch p.pick(3) {
	case 0:
		return 0
	case 1:
		return p.tokens[p.id()]
	}
	return uint64(p.pick(2000))
}

// jump: the clock steps back or far ahead, and the state may be dropped.
func (p *program) jump() {
	switch p.pick(3) {
	case 0:
		p.now = max(p.floor, p.now-queue.Time(p.pick(6)))
	case 1:
		p.now += queue.Time(p.pick(40))
	case 2:
		if p.forget() {
			p.floor = p.now // tokens need a clock ahead of those before
			fmt.Fprintf(&p.said, "%d forget\n", p.now)
		}
	}
}

// run runs steps and returns the broken rule, if any, after the operations that
// led to it.
func (p *program) run(steps int) (broken string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case violation:
			broken = p.said.String() + string(v)
		default:
			panic(v)
		}
	}()
	for range steps {
		p.step()
	}
	return ""
}

// drawn makes the choices at random; package random finds a short program that fails.
type drawn struct{ t *random.T }

func (d drawn) pick(n int) int { return random.IntRange(0, n-1).Draw(d.t, "pick") }

func TestRandomPrograms(t *testing.T) {
	random.Check(t, 3000, func(t *random.T) { // they take a few seconds with -race
		if broken := newProgram(drawn{t}).run(random.IntRange(1, 60).Draw(t, "steps")); broken != "" {
			t.Fatalf("%s", broken)
		}
	})
}

// written makes the choices by the bytes of a fuzzed input.
type written struct{ bytes []byte }

func (w *written) pick(n int) int {
	if len(w.bytes) == 0 {
		return 0
	}
	b := w.bytes[0]
	w.bytes = w.bytes[1:]
	return int(b) % n
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog"))
	f.Add([]byte{0, 9, 0, 0, 1, 3, 0, 9, 1, 0, 1, 3, 0, 2, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		w := &written{bytes: input}
		p := newProgram(w)
		for len(w.bytes) > 0 {
			if broken := p.run(1); broken != "" {
				t.Fatal(broken)
			}
		}
	})
}
