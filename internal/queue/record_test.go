package queue_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
	"github.com/holdfast-go/holdfast/internal/random"
)

// stored returns the queue that a store has after q was written to it and read back. What the
// encoding does not contain is stored beside it.
func stored(t interface{ Fatalf(string, ...any) }, q *queue.Queue) *queue.Queue {
	was := q.Record()
	b := queue.AppendRecord(nil, was)
	s, err := queue.DecodeRecord(b)
	if err != nil {
		t.Fatalf("decoding %x: %v", b, err)
	}
	if again := queue.AppendRecord(nil, s); !bytes.Equal(again, b) {
		t.Fatalf("encoded as %x, after decoding as %x", b, again)
	}
	s.Forget, s.Swept = was.Forget, was.Swept
	for i := range s.Waiters {
		s.Waiters[i].Seen = was.Waiters[i].Seen
	}
	restored := queue.Restore(quick, s)
	if is := restored.Record(); !reflect.DeepEqual(is, was) {
		t.Fatalf("the state was %+v, and is %+v after a restore", was, is)
	}
	return restored
}

// Programs keep to all rules if the queue is written to a store and read back between operations.
func TestRandomProgramsOnAStoredQueue(t *testing.T) {
	random.Check(t, 1000, func(t *random.T) {
		p := newProgram(drawn{t})
		for range random.IntRange(1, 60).Draw(t, "steps") {
			if broken := p.run(1); broken != "" {
				t.Fatalf("%s", broken)
			}
			p.queue = stored(t, p.queue)
		}
	})
}

// everything is a state in which each field has a value of its own.
func everything() queue.Record {
	return queue.Record{
		Kind: "semaphore", Capacity: 7, Birth: 1001, Last: 1_700_000_000_000_123, Marked: 1_700_000_100_000_000,
		Newest: queue.Holder{ID: "n.1", Weight: 1, Token: 1002, Since: 1_699_999_999_000_000, Reason: "newest"}, Called: "turn.1",
		Holders: []queue.Holder{
			{ID: "a.1", Weight: 2, Token: 1003, Since: 1_699_999_999_500_000, Deadline: 1_700_000_015_000_000, Reason: "the report of März"},
			{ID: "b.1", Weight: 3, Token: 1_700_000_000_000_122, Since: -5, Deadline: -1, Breaking: true},
		},
		Waiters: []queue.Waiter{
			{ID: "c.1", Weight: 7, TTL: 15_000_000, Reserve: 64, Mark: 86_400_000_000, Since: 1_700_000_000_000_000, Reason: "waits"},
			{ID: "turn.1", Place: 12, Weight: 1, TTL: 300_000, Since: 1_700_000_000_000_001},
		},
		Ended: []queue.Tombstone{
			{ID: "", Cause: queue.Broken, Until: 3},
			{ID: "x.1", Cause: queue.Released, Until: 1_700_000_600_000_000},
		},
	}
}

// reasoned is everything, and the reason of a break.
func reasoned() queue.Record {
	s := everything()
	s.Ended[0].Reason = "it hangs"
	return s
}

// A store keeps encodings for as long as its resources are used, so a version never changes:
// what this program writes for a version is what every program wrote.
func TestEncodingsOfEachVersion(t *testing.T) {
	for file, want := range map[string]queue.Record{"encoding_v1.hex": everything(), "encoding_v2.hex": reasoned()} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := hex.DecodeString(string(bytes.Join(bytes.Fields(text), nil)))
		if err != nil {
			t.Fatal(err)
		}
		if b := queue.AppendRecord(nil, want); !bytes.Equal(b, golden) {
			t.Errorf("%s: the encoding is\n%x\nand was\n%x", file, b, golden)
		}
		s, err := queue.DecodeRecord(golden)
		if err != nil || !reflect.DeepEqual(s, want) {
			t.Errorf("%s: decoded as %+v, %v", file, s, err)
		}
	}
}

// Whatever bytes a store returns, decoding them is an error or gives the state they encode.
func FuzzDecodeRecord(f *testing.F) {
	f.Add(queue.AppendRecord(nil, everything()))
	f.Add(queue.AppendRecord(nil, reasoned()))
	f.Add(queue.AppendRecord(nil, queue.Record{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := queue.DecodeRecord(b)
		if err != nil {
			return
		}
		if again := queue.AppendRecord(nil, s); !bytes.Equal(again, b) {
			t.Fatalf("%x was decoded as %+v, whose encoding is %x", b, s, again)
		}
		queue.Restore(quick, s).Tidy(5) // it has to work, whatever it contains
	})
}

func TestEncodingsThatAreCutOff(t *testing.T) {
	for _, s := range []queue.Record{everything(), reasoned()} {
		b := queue.AppendRecord(nil, s)
		for n := range b {
			if _, err := queue.DecodeRecord(b[:n]); err == nil {
				t.Errorf("decoding the first %d of %d bytes: no error", n, len(b))
			}
		}
		if _, err := queue.DecodeRecord(append(b, 0)); err == nil {
			t.Error("decoding with a byte behind it: no error")
		}
		b[0] = 3
		if _, err := queue.DecodeRecord(b); err == nil {
			t.Error("decoding version 3: no error")
		}
	}
	b := queue.AppendRecord(nil, queue.Record{Ended: []queue.Tombstone{{ID: "a", Cause: queue.Broken, Until: 1}}})
	b = append(b, 0)
	b[0] = 2
	if _, err := queue.DecodeRecord(b); err == nil {
		t.Error("decoding version 2 without a reason: no error")
	}
}

func TestPrune(t *testing.T) {
	s := queue.Record{Ended: []queue.Tombstone{
		{ID: "a", Cause: queue.Broken, Until: 10}, {ID: "b", Cause: queue.Expired, Until: 40},
		{ID: "c", Cause: queue.Released, Until: 20}, {ID: "d", Cause: queue.Released, Until: 30},
	}}
	s.Prune(2, 10)
	want := []queue.Tombstone{{ID: "b", Cause: queue.Expired, Until: 40}, {ID: "d", Cause: queue.Released, Until: 30}}
	if !reflect.DeepEqual(s.Ended, want) {
		t.Errorf("got %+v, want %+v", s.Ended, want)
	}
}
