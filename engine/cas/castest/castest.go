// Package castest provides the conformance tests of the stores on which package
// cas runs, and a store in memory for tests of the engine itself. An adapter runs
// them as
//
//	func TestStore(t *testing.T) {
//		castest.Run(t, func(t testing.TB) cas.DocumentStore { return open(t) })
//	}
//
// Each test uses its own prefix, so open may return stores of the same data.
package castest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// Run runs the tests. It calls open for each; open must register its clean-up with
// t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) cas.DocumentStore) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  func(s *scene)
	}{
		{"SwapsTheExpectedRevision", swapsTheExpectedRevision},
		{"ConflictReturnsThePresent", conflictReturnsThePresent},
		{"ChangesAreIndependent", changesAreIndependent},
		{"UnchangedIsShort", unchangedIsShort},
		{"AnyKey", anyKey},
		{"AnyValue", anyValue},
		{"KeysOfOnePrefix", keysOfOnePrefix},
		{"NoUpdateIsLost", noUpdateIsLost},
		{"NoUpdateIsLostInBatches", noUpdateIsLostInBatches},
		{"RevisionsAreNotUsedAgain", revisionsAreNotUsedAgain},
		{"MessagesOrResync", messagesOrResync},
		{"ClosedListenerIsSilent", closedListenerIsSilent},
		{"ListenersOfOneAddress", listenersOfOneAddress},
		{"ContextEndedBefore", contextEndedBefore},
		{"ClockRuns", clockRuns},
		{"AgeIsNotTooHigh", ageIsNotTooHigh},
		{"WitnessesLastAndVanish", witnessesLastAndVanish},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.run(&scene{T: t, store: open(t), ctx: t.Context(), prefix: "castest " + rand.Text()})
		})
	}
}

type scene struct {
	*testing.T
	store  cas.DocumentStore
	ctx    context.Context
	prefix string
}

func (s *scene) key(name string) cas.Key {
	return cas.Key{Space: cas.Resources, Prefix: s.prefix, Name: name}
}

func (s *scene) read(k cas.Key) cas.Doc {
	s.Helper()
	docs, err := s.store.Read(s.ctx, []cas.Read{{Key: k}})
	if err != nil || len(docs) != 1 {
		s.Fatalf("reading %q: %v, %v", k, docs, err)
	}
	return docs[0]
}

func (s *scene) swap(c cas.Change) cas.Outcome {
	s.Helper()
	if c.Keep == 0 {
		c.Keep = time.Hour
	}
	outs, err := s.store.Swap(s.ctx, []cas.Change{c})
	if err != nil || len(outs) != 1 {
		s.Fatalf("changing %q: %v, %v", c.Key, outs, err)
	}
	return outs[0]
}

// make makes a document and returns its revision.
func (s *scene) make(k cas.Key, value string) uint64 {
	s.Helper()
	out := s.swap(cas.Change{Key: k, Value: []byte(value)})
	if !out.Swapped || out.Doc.Rev == 0 {
		s.Fatalf("making %q: %+v", k, out)
	}
	return out.Doc.Rev
}

func (s *scene) requireDoc(k cas.Key, rev uint64, value string) {
	s.Helper()
	if d := s.read(k); d.Rev != rev || string(d.Value) != value {
		s.Errorf("%q is %q at revision %d, want %q at %d", k, d.Value, d.Rev, value, rev)
	}
}

func swapsTheExpectedRevision(s *scene) {
	k := s.key("a")
	if d := s.read(k); d.Rev != 0 || len(d.Value) != 0 {
		s.Errorf("a document that was never made: %+v", d)
	}
	rev := s.make(k, "one")
	s.requireDoc(k, rev, "one")
	out := s.swap(cas.Change{Key: k, Rev: rev, Value: []byte("two"), Relaxed: true})
	if !out.Swapped || out.Doc.Rev == rev || out.Doc.Rev == 0 {
		s.Errorf("changing revision %d: %+v", rev, out)
	}
	s.requireDoc(k, out.Doc.Rev, "two")
}

func conflictReturnsThePresent(s *scene) {
	k := s.key("a")
	rev := s.make(k, "present")
	for _, wrong := range []uint64{0, rev + 1, rev - 1} {
		out := s.swap(cas.Change{Key: k, Rev: wrong, Value: []byte("mine")})
		if out.Swapped || out.Doc.Rev != rev || string(out.Doc.Value) != "present" {
			s.Errorf("changing revision %d where %d is present: %+v", wrong, rev, out)
		}
	}
	absent := s.key("b")
	if out := s.swap(cas.Change{Key: absent, Rev: 7, Value: []byte("mine")}); out.Swapped || out.Doc.Rev != 0 {
		s.Errorf("changing revision 7 of an absent document: %+v", out)
	}
	s.requireDoc(k, rev, "present")
	s.requireDoc(absent, 0, "")
}

// changesAreIndependent: one call changes many documents, some of which are others by now.
func changesAreIndependent(s *scene) {
	var changes []cas.Change
	var reads []cas.Read
	for i := range 50 {
		k := s.key(strconv.Itoa(i))
		c := cas.Change{Key: k, Value: []byte("new"), Keep: time.Hour, Relaxed: i%10 == 1}
		if i%3 != 0 {
			c.Rev = s.make(k, "old")
		}
		if i%5 == 0 {
			c.Rev += 3
		}
		changes, reads = append(changes, c), append(reads, cas.Read{Key: k})
	}
	outs, err := s.store.Swap(s.ctx, changes)
	if err != nil || len(outs) != len(changes) {
		s.Fatalf("%d outcomes, %v", len(outs), err)
	}
	docs, err := s.store.Read(s.ctx, reads)
	if err != nil || len(docs) != len(reads) {
		s.Fatalf("%d documents, %v", len(docs), err)
	}
	for i := range outs {
		want := "new"
		if i%5 == 0 {
			want = "old"
			if i%3 == 0 {
				want = ""
			}
		}
		if outs[i].Swapped != (i%5 != 0) || string(docs[i].Value) != want || docs[i].Rev != outs[i].Doc.Rev {
			s.Errorf("change %d: %+v, and the document is %+v, want %q", i, outs[i], docs[i], want)
		}
	}
}

func unchangedIsShort(s *scene) {
	k := s.key("a")
	rev := s.make(k, "value")
	docs, err := s.store.Read(s.ctx, []cas.Read{{Key: k, Rev: rev}, {Key: s.key("b"), Rev: rev}, {Key: k, Rev: rev + 1}})
	if err != nil {
		s.Fatal(err)
	}
	if d := docs[0]; d.Rev != rev || !d.Unchanged && string(d.Value) != "value" {
		s.Errorf("the same revision: %+v", d)
	}
	if d := docs[1]; d.Rev != 0 || d.Unchanged {
		s.Errorf("an absent document: %+v", d)
	}
	if d := docs[2]; d.Rev != rev || d.Unchanged || string(d.Value) != "value" {
		s.Errorf("another revision: %+v", d)
	}
}

// anyKey: keys that differ in a byte are different documents.
func anyKey(s *scene) {
	names := []string{
		"a", "A", "a ", " a", "a\x00", "a\x00b", "a/b", "/", "//", ".", "..", "%", "_", "a\\", "'; --", "{a}", "\u00e4", "a\u0308", "\U0001f512", "\n",
		strings.Repeat("x", 512), strings.Repeat("\U0001f512", 128), strings.Repeat("/", 512),
	}
	revs := make(map[cas.Key]uint64)
	for _, name := range names {
		for _, k := range []cas.Key{s.key(name), {Space: cas.Clients, Prefix: s.prefix, Name: name}, {Space: cas.Resources, Prefix: s.prefix + name, Name: "p"}} {
			if len(k.Prefix) <= 512 {
				revs[k] = s.make(k, fmt.Sprintf("%q", k))
			}
		}
	}
	for k, rev := range revs {
		s.requireDoc(k, rev, fmt.Sprintf("%q", k))
	}
	var listed []string
	for k, err := range s.store.Keys(s.ctx, cas.Resources, s.prefix) {
		if err != nil {
			s.Fatal(err)
		}
		listed = append(listed, k.Name)
	}
	slices.Sort(listed)
	slices.Sort(names)
	if !slices.Equal(listed, names) {
		s.Errorf("listed %q, want %q", listed, names)
	}
}

func anyValue(s *scene) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for i, v := range [][]byte{{0}, every, bytes.Repeat(every, 2048)} {
		k := s.key(strconv.Itoa(i))
		rev := s.make(k, string(v))
		s.requireDoc(k, rev, string(v))
	}
}

func keysOfOnePrefix(s *scene) {
	for i := range 300 {
		s.make(s.key(fmt.Sprintf("n%03d", i)), "v")
	}
	s.make(cas.Key{Space: cas.Clients, Prefix: s.prefix, Name: "client"}, "v")
	s.make(cas.Key{Space: cas.Resources, Prefix: s.prefix + "n", Name: "000"}, "v")
	s.make(cas.Key{Space: cas.Resources, Prefix: s.prefix[:len(s.prefix)-1], Name: s.prefix[len(s.prefix)-1:] + "x"}, "v")
	found := make(map[string]bool)
	for k, err := range s.store.Keys(s.ctx, cas.Resources, s.prefix) {
		if err != nil {
			s.Fatal(err)
		}
		if k.Space != cas.Resources || k.Prefix != s.prefix || found[k.Name] || len(k.Name) != 4 {
			s.Errorf("listed %q", k)
		}
		found[k.Name] = true
		if len(found)%100 == 1 { // nothing that the store needs is in use by the listing
			s.read(k)
		}
	}
	if len(found) != 300 {
		s.Errorf("listed %d keys, want 300", len(found))
	}
	for range s.store.Keys(s.ctx, cas.Resources, s.prefix) {
		break // what the listing has open is closed
	}
}

// increment adds one to a counter.
func (s *scene) increment(k cas.Key) error {
	doc := cas.Doc{}
	for {
		n, _ := strconv.Atoi(string(doc.Value))
		outs, err := s.store.Swap(s.ctx, []cas.Change{{Key: k, Rev: doc.Rev, Value: []byte(strconv.Itoa(n + 1)), Keep: time.Hour}})
		if err != nil {
			return err
		}
		if outs[0].Swapped {
			return nil
		}
		doc = outs[0].Doc
	}
}

func noUpdateIsLost(s *scene) {
	const writers, turns = 8, 20
	k := s.key("counter")
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range turns {
				if err := s.increment(k); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if d := s.read(k); string(d.Value) != strconv.Itoa(writers*turns) {
		s.Errorf("the counter is %s, want %d", d.Value, writers*turns)
	}
}

// noUpdateIsLostInBatches: calls that change the same documents in different orders.
func noUpdateIsLostInBatches(s *scene) {
	const writers, turns, keys = 6, 10, 5
	var made [keys]int
	var mu sync.Mutex
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			docs := make([]cas.Doc, keys)
			for range turns {
				var changes []cas.Change
				for i := range keys {
					n := (i*(w+1) + w) % keys // another order for each
					v, _ := strconv.Atoi(string(docs[n].Value))
					changes = append(changes, cas.Change{Key: s.key(strconv.Itoa(n)), Rev: docs[n].Rev, Value: []byte(strconv.Itoa(v + 1)), Keep: time.Hour})
				}
				if w == keys-1 { // (i*5+4)%5 is one key five times
					changes = changes[:1]
				}
				outs, err := s.store.Swap(s.ctx, changes)
				if err != nil {
					s.Error(err)
					return
				}
				for i, out := range outs {
					n, _ := strconv.Atoi(changes[i].Key.Name)
					if docs[n] = out.Doc; out.Swapped {
						docs[n].Value = changes[i].Value
						mu.Lock()
						made[n]++
						mu.Unlock()
					}
				}
			}
		})
	}
	all.Wait()
	for n, want := range made {
		if d := s.read(s.key(strconv.Itoa(n))); string(d.Value) != strconv.Itoa(want) {
			s.Errorf("counter %d is %q, want %d", n, d.Value, want)
		}
	}
}

// revisionsAreNotUsedAgain: a document may be deleted when its time is over, and one that is
// made in its place is another one.
func revisionsAreNotUsedAgain(s *scene) {
	k := s.key("a")
	used := make(map[uint64]bool)
	for range 5 {
		out := s.swap(cas.Change{Key: k, Value: []byte("v"), Keep: 20 * time.Millisecond})
		for !out.Swapped { // it is still there
			time.Sleep(30 * time.Millisecond)
			out = s.swap(cas.Change{Key: k, Rev: out.Doc.Rev, Value: []byte("v"), Keep: 20 * time.Millisecond})
		}
		if used[out.Doc.Rev] {
			s.Errorf("revision %d a second time", out.Doc.Rev)
		}
		used[out.Doc.Rev] = true
		time.Sleep(30 * time.Millisecond)
	}
}

// listen opens a stream whose messages and resyncs arrive in channels.
func (s *scene) listen(client string) (bodies <-chan string, resyncs <-chan struct{}, closeIt func()) {
	s.Helper()
	got, lost := make(chan string, 100), make(chan struct{}, 1)
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	l, err := s.store.Listen(ctx, cas.Address{Prefix: s.prefix, Client: client}, func(b []byte) { got <- string(b) }, func() {
		select {
		case lost <- struct{}{}:
		default:
		}
	})
	if err != nil {
		s.Fatal(err)
	}
	var once sync.Once
	closeIt = func() {
		once.Do(func() {
			if err := l.Close(); err != nil {
				s.Errorf("closing a listener: %v", err)
			}
		})
	}
	s.Cleanup(closeIt)
	return got, lost, closeIt
}

func (s *scene) message(client, body string) cas.Message {
	return cas.Message{To: cas.Address{Prefix: s.prefix, Client: client}, Body: []byte(body)}
}

// messagesOrResync: a message arrives where it was sent to, soon, or a resync does.
func messagesOrResync(s *scene) {
	a, lostA, _ := s.listen("a")
	b, _, _ := s.listen("b")
	k := s.key("a")
	bodies := []string{"short", `{"k":1,"id":"x.y'\"\\"}`, "\u00e4\U0001f512", strings.Repeat("long", 1000)}
	var messages []cas.Message
	for _, body := range bodies {
		messages = append(messages, s.message("a", body))
	}
	rev := s.make(k, "v")
	if out := s.swap(cas.Change{Key: k, Rev: rev + 1, Value: []byte("w"), Messages: []cas.Message{s.message("a", "of a conflict")}}); out.Swapped {
		s.Fatal("a wrong revision was swapped")
	}
	if out := s.swap(cas.Change{Key: k, Rev: rev, Value: []byte("w"), Messages: messages}); !out.Swapped {
		s.Fatalf("not swapped: %+v", out)
	}
	timeout := time.After(5 * time.Second)
	for len(bodies) > 0 {
		select {
		case got := <-a:
			i := slices.Index(bodies, got)
			if i < 0 {
				s.Fatalf("a was sent %q", got)
			}
			bodies = slices.Delete(bodies, i, i+1)
		case <-lostA:
			bodies = nil
		case <-timeout:
			s.Fatalf("neither %q nor a resync arrived within 5 s", bodies)
		}
	}
	select {
	case got := <-b:
		s.Errorf("b was sent %q", got)
	default:
	}
}

func closedListenerIsSilent(s *scene) {
	got, lost, closeIt := s.listen("a")
	closeIt()
	for len(lost) > 0 { // before it was closed
		<-lost
	}
	rev := s.make(s.key("a"), "v")
	s.swap(cas.Change{Key: s.key("a"), Rev: rev, Value: []byte("w"), Messages: []cas.Message{s.message("a", "late")}})
	time.Sleep(100 * time.Millisecond)
	if len(got)+len(lost) > 0 {
		s.Errorf("%d messages and %d resyncs after Close", len(got), len(lost))
	}
}

// listenersOfOneAddress: a further stream to an address becomes live too, and so does one that follows another at once.
func listenersOfOneAddress(s *scene) {
	_, _, closeFirst := s.listen("a")
	for range 20 {
		s.listen("a")
		_, _, closeIt := s.listen("b")
		closeIt()
	}
	closeFirst()
	s.listen("a")
}

func contextEndedBefore(s *scene) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	k := s.key("a")
	if _, err := s.store.Read(ctx, []cas.Read{{Key: k}}); !errors.Is(err, context.Canceled) {
		s.Errorf("Read: %v", err)
	}
	if _, err := s.store.Swap(ctx, []cas.Change{{Key: k, Value: []byte("v"), Keep: time.Hour}}); !errors.Is(err, context.Canceled) {
		s.Errorf("Swap: %v", err)
	}
	if l, err := s.store.Listen(ctx, cas.Address{Prefix: s.prefix, Client: "c"}, func([]byte) {}, func() {}); err == nil {
		s.Error("Listen: no error", l.Close())
	}
	for _, err := range s.store.Keys(ctx, cas.Resources, s.prefix) {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("Keys: %v", err)
		}
	}
	if d := s.read(k); d.Rev != 0 {
		s.Errorf("a change whose ctx had ended was made: %+v", d)
	}
}

// clockRuns: the time in a reply is between those read before and after the call.
func clockRuns(s *scene) {
	clock, ok := s.store.(cas.TimedStore)
	if !ok {
		if d := s.read(s.key("a")); !d.At.IsZero() {
			s.Errorf("a store that is no TimedStore returned the time %v", d.At)
		}
		return
	}
	now := func() time.Time {
		s.Helper()
		t, err := clock.Now(s.ctx)
		if err != nil {
			s.Fatal(err)
		}
		return t
	}
	k := s.key("a")
	var rev uint64
	for i := range 5 {
		before := now()
		at := []time.Time{before}
		read := s.read(k)
		at = append(at, read.At)
		out := s.swap(cas.Change{Key: k, Rev: rev, Value: []byte(strconv.Itoa(i))})
		rev = out.Doc.Rev
		at = append(at, out.Doc.At)
		at = append(at, s.swap(cas.Change{Key: k, Rev: rev + 1, Value: []byte("x")}).Doc.At, now())
		if !slices.IsSortedFunc(at, time.Time.Compare) || at[len(at)-1].Sub(before) > 5*time.Second {
			s.Errorf("the clock showed %v", at)
		}
	}
}

// ageIsNotTooHigh: a document is no older than the time since the call that made it began.
func ageIsNotTooHigh(s *scene) {
	k := s.key("a")
	var rev uint64
	for range 5 {
		began := time.Now()
		out := s.swap(cas.Change{Key: k, Rev: rev, Value: []byte("v")})
		rev = out.Doc.Rev
		time.Sleep(5 * time.Millisecond)
		present := []cas.Doc{out.Doc, s.read(k), s.swap(cas.Change{Key: k, Rev: rev + 1, Value: []byte("w")}).Doc}
		for _, d := range present {
			if most := time.Since(began); d.Rev != rev || d.Age < 0 || d.Age > most {
				s.Errorf("revision %d, made at most %v ago, is said to be %v old at least", d.Rev, most, d.Age)
			}
		}
	}
}

// witnessesLastAndVanish: a witness is there for as long as it was said to last, and then it vanishes.
func witnessesLastAndVanish(s *scene) {
	store, ok := s.store.(cas.WitnessStore)
	if !ok {
		return
	}
	began := time.Now()
	var names []string
	var ends []time.Time
	for _, d := range []time.Duration{time.Hour, time.Second, 3 * time.Second} {
		sent := time.Now()
		name, lasts, err := store.Witness(s.ctx, s.prefix, d)
		if err != nil || lasts <= 0 || name == "" || len(name) > 64 || slices.Contains(names, name) {
			s.Fatalf("a witness for %v: %q, which lasts for %v, %v", d, name, lasts, err)
		}
		names, ends = append(names, name), append(ends, sent.Add(lasts))
	}
	for asked := []int{0, 1, 2}; len(asked) > 1; time.Sleep(20 * time.Millisecond) {
		some := make([]string, len(asked))
		for i, n := range asked {
			some[i] = names[n]
		}
		states, err := store.Witnesses(s.ctx, s.prefix, some)
		if err != nil || len(states) != len(some) || slices.Contains(states, cas.WitnessForeign) {
			s.Fatalf("of %d witnesses: %v, %v", len(some), states, err)
		}
		now := time.Now()
		asked = slices.DeleteFunc(asked, func(n int) bool {
			over := states[slices.Index(some, names[n])] == cas.WitnessVanished
			if over && now.Before(ends[n]) {
				s.Errorf("witness %d vanished %v too early", n, ends[n].Sub(now))
			}
			return over
		})
		if now.Sub(began) > 2*time.Minute {
			s.Fatalf("after %v the witnesses %v are still there", now.Sub(began), asked)
		}
	}
	if _, err := store.Witnesses(s.ctx, s.prefix, nil); err != nil {
		s.Errorf("of no witness: %v", err)
	}
}
