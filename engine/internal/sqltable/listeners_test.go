package sqltable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// table is a table of messages.
type table struct {
	mu    sync.Mutex
	rows  []StoredMessage
	fails bool
	looks int
}

func (b *table) look(_ context.Context, above int64, _ []string) (rows []StoredMessage, highest int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	if b.fails {
		return nil, 0, errors.New("no table")
	}
	for _, r := range b.rows {
		highest = max(highest, r.Number)
		if r.Number > above {
			rows = append(rows, r)
		}
	}
	return rows, highest, nil
}

func (b *table) insert(number int64, to cas.Address) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, StoredMessage{Number: number, To: string(Recipient(to)), Body: fmt.Append(nil, number)})
}

func (b *table) set(change func(b *table)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// counted returns how many looks there were since the last call.
func (b *table) counted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.looks
	b.looks = 0
	return n
}

// received is what a listener has got.
type received struct {
	mu      sync.Mutex
	bodies  []string
	resyncs int
}

func (r *received) deliver(body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, string(body))
}

func (r *received) resync() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resyncs++
}

func (r *received) require(t *testing.T, resyncs int, bodies ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.bodies, bodies) || r.resyncs != resyncs {
		t.Errorf("received %q and %d resyncs, want %q and %d", r.bodies, r.resyncs, bodies, resyncs)
	}
	r.bodies, r.resyncs = nil, 0
}

var here, there = cas.Address{Prefix: "p", Client: "here"}, cas.Address{Prefix: "p", Client: "there"}

// listening runs a test in a bubble with one listener on a table that has had messages.
func listening(t *testing.T, test func(t *testing.T, b *table, l *Listeners, got *received)) {
	synctest.Test(t, func(t *testing.T) {
		b, got := &table{}, &received{}
		b.insert(7, here) // it is old
		l := NewListeners(b.look)
		s, err := l.Listen(t.Context(), here, got.deliver, got.resync)
		if err != nil {
			t.Fatal(err)
		}
		test(t, b, l, got)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		b.counted()
		after(time.Minute)
		if n := b.counted(); n > 0 {
			t.Errorf("%d looks after the last listener was closed", n)
		}
	})
}

func TestMessagesArriveOnce(t *testing.T) {
	listening(t, func(t *testing.T, b *table, _ *Listeners, got *received) {
		b.insert(8, here)
		b.insert(9, there)
		b.insert(10, here)
		after(5 * time.Second)
		got.require(t, 0, "8", "10")
	})
}

// A transaction with a lower number may be committed after one with a higher number.
func TestMessageOfASlowTransaction(t *testing.T) {
	listening(t, func(t *testing.T, b *table, l *Listeners, got *received) {
		l.Waits(here, "here.1", 0)
		b.insert(9, here)
		after(late / 2)
		got.require(t, 0, "9")
		b.insert(8, here)
		after(late / 2)
		got.require(t, 0, "8")
	})
}

func TestResyncAfterFailures(t *testing.T) {
	listening(t, func(t *testing.T, b *table, _ *Listeners, got *received) {
		b.set(func(b *table) { b.fails = true })
		after(time.Minute)
		got.require(t, 0)
		if n := b.counted(); n > 70 {
			t.Errorf("%d looks in a minute of failures", n)
		}
		b.set(func(b *table) { b.fails = false })
		after(2 * time.Second)
		got.require(t, 1)
	})
}

// The table may be another one with lower numbers, from a backup.
func TestResyncAfterARestore(t *testing.T) {
	listening(t, func(t *testing.T, b *table, _ *Listeners, got *received) {
		b.set(func(b *table) { b.rows = nil })
		after(2 * time.Second)
		got.require(t, 1)
		b.insert(1, here)
		after(2 * time.Second)
		got.require(t, 0, "1")
	})
}

func TestListenersOfThisEngineNeedNoTable(t *testing.T) {
	listening(t, func(t *testing.T, _ *table, l *Listeners, got *received) {
		near, far := l.Split([]cas.Message{{To: here, Body: []byte("a")}, {To: there, Body: []byte("b")}})
		if len(near) != 1 || len(far) != 1 || far[0].To != there {
			t.Errorf("here %v, elsewhere %v", near, far)
		}
		l.Deliver(near)
		got.require(t, 0, "a")
	})
}

// The looks are frequent while somebody is first in line, and become rarer the longer it lasts.
func TestPace(t *testing.T) {
	listening(t, func(t *testing.T, b *table, l *Listeners, _ *received) {
		looks := func(d time.Duration, poll func()) int {
			b.counted()
			for range int(d / time.Second) {
				poll()
				after(time.Second)
			}
			return b.counted()
		}
		require := func(what string, n, least, most int) {
			t.Helper()
			if n < least || n > most {
				t.Errorf("%s: %d looks, want %d to %d", what, n, least, most)
			}
		}
		require("idle", looks(10*time.Second, func() {}), 9, 11)
		first := func() { l.Waits(here, "here.1", 0) }
		require("first for 1 s", looks(time.Second, first), 120, 220)
		require("first for 10 s", looks(10*time.Second, first), 400, 900)
		l.Waits(here, "here.1", -1)
		require("withdrawn", looks(10*time.Second, func() {}), 9, 60)
		second := func() { l.Waits(here, "here.2", 1) }
		require("second for 1 s", looks(time.Second, second), 10, 40)
		require("second for 10 s", looks(10*time.Second, second), 38, 60)
		require("first after 11 s", looks(time.Second, func() { l.Waits(here, "here.2", 0) }), 120, 220)
		after(4 * time.Second)
		require("not polling any more", looks(10*time.Second, func() {}), 9, 11)
	})
}

// Messages show that a line moves: a waiter of it looks more often when its turn is near.
func TestPaceOfALineThatMoves(t *testing.T) {
	const line = 45
	for _, turn := range []time.Duration{15 * time.Millisecond, 18 * time.Millisecond, 21 * time.Millisecond} {
		listening(t, func(t *testing.T, b *table, l *Listeners, got *received) {
			l.Waits(here, "here.1", line)
			b.counted()
			for n := range line {
				after(turn)
				b.insert(int64(8+n), there)
			}
			if n := b.counted(); n < 10 || n > 60 {
				t.Errorf("%d looks while the line moved, want 10 to 60", n)
			}
			after(turn)
			b.insert(8+line, here)
			after(2 * shortest)
			got.require(t, 0, fmt.Sprint(8+line))
		})
	}
}

// Messages of other lines make a waiter look more often, until answers show that its own does not move.
func TestPaceOfALineThatStands(t *testing.T) {
	listening(t, func(t *testing.T, b *table, l *Listeners, _ *received) {
		var looks []int
		for s := range 60 {
			l.Waits(here, "here.1", 20)
			b.counted()
			for n := range 100 {
				after(10 * time.Millisecond)
				b.insert(int64(8+100*s+n), there)
			}
			looks = append(looks, b.counted())
		}
		if n := slices.Max(looks[9:]); n > 10 {
			t.Errorf("%d looks in each second, want 10 or fewer after 9 s", looks)
		}
	})
}

func TestListenFails(t *testing.T) {
	l := NewListeners((&table{fails: true}).look)
	if _, err := l.Listen(t.Context(), here, func([]byte) {}, func() {}); err == nil {
		t.Error("no error")
	}
}

func TestKeys(t *testing.T) {
	for _, k := range []cas.Key{
		{Space: cas.Resources}, {Space: cas.Resources, Name: "n"}, {Space: cas.Clients, Prefix: "p"},
		{Space: cas.Resources, Prefix: "p", Name: "n\x00\U0001f512"}, {Space: cas.Resources, Prefix: "pn"},
	} {
		key := string(Key(k))
		name, err := Name([]byte(key))
		if err != nil || name != k.Name {
			t.Errorf("the name of %+v is %q, %v", k, name, err)
		}
		for _, other := range []string{"", "p", "pn", "p\x00"} {
			from, to := Bounds(cas.Resources, other)
			if within, want := string(from) <= key && key < string(to), k.Space == cas.Resources && k.Prefix == other; within != want {
				t.Errorf("%+v is among those of %q: %v", k, other, within)
			}
		}
	}
	for _, wrong := range []string{"", "r", "r\x00\x02n"} {
		if name, err := Name([]byte(wrong)); err == nil {
			t.Errorf("%q has the name %q", wrong, name)
		}
	}
}

// after returns when a time has passed in the bubble, and all that it causes has happened.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
