package script

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

func load(t *testing.T) *Set {
	t.Helper()
	s, err := New(10 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every Lua file is short, and every script says what it takes and returns.
func TestFiles(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]bool{"acquire.lua": true, "share.lua": true, "renew.lua": true, "renew_all.lua": true, "release.lua": true, "resize.lua": true, "break.lua": true, "snapshot.lua": true, "peek.lua": true, "tidy.lua": true, "together.lua": true}
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n >= 60 {
			t.Errorf("%s has %d lines", entry.Name(), n)
		}
		for _, want := range []string{"-- KEYS  ", "-- ARGV  ", "-- Returns  "} {
			if scripts[entry.Name()] && !strings.Contains(string(text), want) {
				t.Errorf("%s has no line %q", entry.Name(), want)
			}
		}
	}
}

// The scripts know the timing of the contract, read the clock of the store once
// and have no include left over.
func TestTexts(t *testing.T) {
	s := load(t)
	for name, script := range map[string]Script{
		"acquire": s.acquire, "share": s.share, "renew": s.renew, "renew_all": s.renewAll, "release": s.release, "resize": s.resize, "break": s.breaks, "snapshot": s.snapshot, "peek": s.peek, "together": s.together,
		"renew without memory": s.renewFull, "release without memory": s.releaseFull, "resize without memory": s.resizeFull,
	} {
		if n := strings.Count(script.text, "call('TIME')"); n != 1 {
			t.Errorf("%s reads the clock %d times", name, n)
		}
		if strings.Contains(script.text, "#include") || strings.Contains(script.text, "virtual:") {
			t.Errorf("%s is not what production should run", name)
		}
	}
	for _, want := range []string{
		fmt.Sprintf("WAITER_LIFE, CLAIM_WINDOW = %d, %d", engine.WaiterLife.Microseconds(), engine.ClaimWindow.Microseconds()),
		fmt.Sprintf("BALLOT_AHEAD = %d", engine.MaxBallotAhead.Microseconds()),
		fmt.Sprintf("EXPIRED, TAKEN, DELETED, BROKEN, RELEASED = %d, %d, %d, %d, %d",
			engine.CauseExpired, engine.CauseTaken, engine.CauseDeleted, engine.CauseBroken, engine.CauseReleased),
		"local retention = 600000000\nlocal spell, reach = 37500000, 637500000\n",
	} {
		if !strings.Contains(s.acquire.text, want) {
			t.Errorf("the scripts do not say %q", want)
		}
	}
}

func TestMissingFragment(t *testing.T) {
	if _, err := NewWith(time.Minute, map[string]string{"acquire": "--#include nothing"}); err == nil {
		t.Error("a fragment that does not exist was not noticed")
	}
}

// A reply that no script of ours gives is an error, never a panic.
func FuzzReplies(f *testing.F) {
	f.Add(int64(1), "mutex:1", "1 2 3 4 5 6", uint8(9))
	f.Fuzz(func(t *testing.T, n int64, a, b string, shape uint8) {
		list := []any{n, a, n, b, []any{a, b, n}, []any{a, a, b}, nil, a}
		for _, reply := range []any{n, a, nil, list[shape%8:], list, []any{n % 9, n, n, n, a, n, b}, []any{n, a, n, []any{a, b, b}, []any{a, b}, n, a, n}, []any{n, a, n, []any{a, b, b}, n, n, a}} {
			_, _ = Acquire{Capacity: int(shape)}.Read(reply)
			_, _ = Peek{}.Read(reply)
			_, _, _ = Renew{}.Read(reply)
			_, _ = ReadRenewed(reply, int(shape))
			_, _ = Release{}.Read(reply)
			_, _, _ = Resize{}.Read(reply)
			_, _ = Break{}.Read(reply)
			_, _ = Snapshot{}.Read(reply)
		}
	})
}

func TestReadsSnapshot(t *testing.T) {
	got, err := Snapshot{WaiterLife: 3 * time.Second}.Read([]any{
		int64(10_000_000), "rw:4", int64(99),
		[]any{"c1.b", "12000000", "3 98 9000000 why me", "c1.a", "11000000", "1 97 8000000 "},
		[]any{"c2.a", "0000000007000001 0000000006000000 4 15000000 0 0 later", "c2.b", "0000000007000000 0000000006000000 1 15000000 0 5 gone"},
		int64(70_000_000), "", int64(0),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := State{
		Kind: "rw", Capacity: 4, Last: 99, Marked: time.Minute,
		Holders: []Holder{
			{ID: "c1.a", Weight: 1, Token: 97, Since: time.UnixMicro(8_000_000), TTL: time.Second},
			{ID: "c1.b", Weight: 3, Token: 98, Since: time.UnixMicro(9_000_000), TTL: 2 * time.Second, Reason: "why me"},
		},
		Waiters: []Waiter{{ID: "c2.a", Weight: 4, Since: time.UnixMicro(6_000_000), Reason: "later"}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
