package queue_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/queue"
)

var rewrite = flag.Bool("rewrite", false, "write the answers into the transcripts instead of comparing them")

// TestTranscripts replays testdata/*.txt: operations, a line of four dashes,
// one answer for each operation, an empty line. The clock starts at 100 s, so
// the first token is 100000000. Operations:
//
//	default [kind=K] [capacity=N] [weight=N] [ttl=D]     for the acquires below
//	acquire ID [try] [weight=N] [reserve=N] [ballot=N] [turn=ID] [place=N] [mark=D] [yields=ID] …
//	renew ID [token=N] [ttl=D]       the token is the one last granted to the ID
//	release ID [token=N] [mark=D]    unless given
//	resize ID to=N [token=N]
//	withdraw ID [mark=D], break ID|mark [force] [reason=TEXT]
//	after D, back D                  the clock goes on, or steps back
//	show                             a snapshot
//	forget                           drop the state if that loses nothing
//	lose                             drop the state
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			old, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newStage().play(t, string(old))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(old), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("%s:%d: got %q; -rewrite writes it, then look at the diff", file, i+1, line)
				}
			}
		})
	}
}

// stage is where one transcript is played.
type stage struct {
	queue    *queue.Queue
	now      queue.Time
	defaults map[string]string
	tokens   map[string]uint64
}

func newStage() *stage {
	start := 100 * queue.Second
	return &stage{
		queue: queue.New(params, start), now: start, tokens: map[string]uint64{},
		defaults: map[string]string{"kind": "mutex", "capacity": "1", "weight": "1", "ttl": "10s"},
	}
}

// play returns the text with each answer as it is.
func (s *stage) play(t *testing.T, text string) string {
	var out strings.Builder
	answers, inAnswer := "", false
	for _, line := range strings.SplitAfter(text, "\n") {
		op := strings.TrimSpace(line)
		switch {
		case inAnswer && op != "":
			continue // the old answer
		case inAnswer:
			out.WriteString(answers + line)
			answers, inAnswer = "", false
			continue
		case op == "----":
			inAnswer = true
		case op != "" && !strings.HasPrefix(op, "#"):
			answers += s.do(t, strings.Fields(op)) + "\n"
		}
		out.WriteString(line)
	}
	return out.String() + answers
}

func (s *stage) do(t *testing.T, words []string) string {
	id, args := "", map[string]string{}
	for i, word := range words[1:] {
		if key, value, ok := strings.Cut(word, "="); ok || i > 0 {
			args[key] = value
		} else {
			id = word
		}
	}
	switch op := words[0]; op {
	case "default":
		for key, value := range args {
			s.defaults[key] = value
		}
		return "ok"
	case "after":
		s.now += span(t, id)
		return "at " + show(s.now)
	case "back":
		s.now -= span(t, id)
		return "at " + show(s.now)
	case "acquire":
		return s.acquire(t, id, args)
	case "renew":
		return s.print(s.queue.Renew(id, s.token(t, id, args), span(t, s.arg(args, "ttl")), s.now))
	case "release":
		return s.print(s.queue.Release(id, s.token(t, id, args), false, span(t, args["mark"]), s.now))
	case "resize":
		return s.print(s.queue.Resize(id, s.token(t, id, args), int(number(t, args["to"])), s.now))
	case "withdraw":
		return s.print(s.queue.Release(id, 0, true, span(t, args["mark"]), s.now))
	case "break":
		_, force := args["force"]
		return s.print(s.queue.Break(queue.Break{ID: id, Force: force, Reason: args["reason"]}, s.now))
	case "show":
		return s.show()
	case "forget":
		if !s.queue.Forgettable(s.now) {
			return "kept"
		}
		s.queue = queue.New(params, s.now)
		return "forgotten"
	case "lose":
		s.queue = queue.New(params, s.now)
		return "ok"
	default:
		t.Fatalf("no such operation: %s", op)
		return ""
	}
}

func (s *stage) acquire(t *testing.T, id string, args map[string]string) string {
	_, try := args["try"]
	a := s.queue.Acquire(queue.Request{
		ID: id, Kind: s.arg(args, "kind"), Queue: !try, Yields: args["yields"],
		Capacity: int(number(t, s.arg(args, "capacity"))), Weight: int(number(t, s.arg(args, "weight"))),
		TTL: span(t, s.arg(args, "ttl")), Mark: span(t, args["mark"]), Reserve: number(t, args["reserve"]), Ballot: number(t, args["ballot"]),
		Turn: args["turn"], Place: number(t, args["place"]),
	}, s.now)
	if a.Status == queue.Granted {
		s.tokens[id] = a.Token
	}
	return s.print(a)
}

// print returns an answer, and the wake-ups that go with it, as text.
func (s *stage) print(a queue.Answer) string {
	text := statusNames[a.Status]
	switch a.Status {
	case queue.Granted:
		text += fmt.Sprintf(" token=%d ttl=%s", a.Token, show(a.TTL))
	case queue.Queued:
		text += fmt.Sprintf(" position=%d next=%s", a.Position, show(a.Next))
	case queue.Busy:
		text += fmt.Sprintf(" holder=%q next=%s waiters=%d", a.Holder.ID, show(a.Next), a.Waiters)
		if a.Position > 0 {
			text += fmt.Sprintf(" ahead=%d", a.Position)
		}
	case queue.Marked:
		text += fmt.Sprintf(" next=%s", show(a.Next))
	case queue.Outbid:
		text += fmt.Sprintf(" last=%d", a.Last)
	case queue.Ended, queue.NotHeld:
		text += ": " + causeNames[a.Cause]
		if a.Reason != "" {
			text += " for " + a.Reason
		}
	}
	for _, g := range a.Grants {
		s.tokens[g.ID] = g.Token
		text += fmt.Sprintf("; wakes %s token=%d ttl=%s", g.ID, g.Token, show(g.TTL))
	}
	for _, id := range a.Called {
		text += "; calls " + id
	}
	for _, id := range a.Dropped {
		text += fmt.Sprintf("; sends away %s for %s", id, show(a.Left))
	}
	return text
}

func (s *stage) show() string {
	snap := s.queue.Snapshot(s.now)
	text := fmt.Sprintf("%s of %d, last=%d", snap.Kind, snap.Capacity, snap.Last)
	if snap.Marked != 0 {
		text += "; marked for " + show(snap.Marked-s.now)
	}
	for _, h := range snap.Holders {
		text += fmt.Sprintf("; %s holds %d token=%d ttl=%s", h.ID, h.Weight, h.Token, show(h.Deadline-s.now))
		if h.Breaking {
			text += " breaking"
		}
	}
	for _, w := range snap.Waiters {
		text += fmt.Sprintf("; %s waits for %d", w.ID, w.Weight)
	}
	return text
}

func (s *stage) arg(args map[string]string, key string) string {
	if value, ok := args[key]; ok {
		return value
	}
	return s.defaults[key]
}

func (s *stage) token(t *testing.T, id string, args map[string]string) uint64 {
	if text, ok := args["token"]; ok {
		return number(t, text)
	}
	return s.tokens[id]
}

func number(t *testing.T, text string) uint64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func span(t *testing.T, text string) queue.Time {
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d.Microseconds()
}

func show(t queue.Time) string { return (time.Duration(t) * time.Microsecond).String() }
