package script

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var rewrite = flag.Bool("rewrite", false, "write the expanded scripts into testdata instead of comparing them")

func load(t *testing.T) *Set {
	t.Helper()
	s, err := New(10 * time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// texts are the scripts of production, by name.
func texts(t *testing.T) map[string]string {
	s := load(t)
	return map[string]string{
		"acquire": s.acquire.text(), "acquire_shared": s.acquireShared.text(), "renew": s.renew.text(), "renew_batch": s.renewBatch.text(),
		"release": s.release.text(), "resize": s.resize.text(), "break": s.breaks.text(), "clear": s.clear.text(),
		"snapshot": s.snapshot.text(), "peek": s.peek.text(), "batch": s.batch.text(),
	}
}

// A section of a file is short, and every script says what it takes and returns.
func TestFiles(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range strings.Split(string(text), sectionStart) {
			if n := strings.Count(section, "\n"); n >= 60 {
				t.Errorf("%s has a section of %d lines", entry.Name(), n)
			}
		}
	}
	for name, text := range texts(t) {
		for _, want := range []string{"\n-- KEYS  ", "\n-- ARGV  ", "\n-- Returns  "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no line %q", name, want)
			}
		}
	}
}

// Testdata shows what Redis runs: the scripts with all fragments and constants.
func TestGoldenFiles(t *testing.T) {
	for name, text := range texts(t) {
		file := filepath.Join("testdata", name+".lua")
		if *rewrite {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(golden) != text {
			t.Errorf("%s is not what Redis runs; go test -rewrite writes it", file)
		}
	}
}

// A golden file runs by itself, as with redis-cli --eval.
func TestGoldenFilesRun(t *testing.T) {
	rdb := redistest.Start(t).Client()
	eval := func(name string, args ...any) any {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata", name+".lua"))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := rdb.Eval(t.Context(), string(text), []string{"demo:{stock}", "demo:{stock}:line"}, args...).Result()
		if err != nil {
			t.Fatal(name, err)
		}
		return reply
	}
	granted, err := Acquire{}.Read(eval("acquire", "c1.a", "mutex:1", 15000000, 16, "16 0 why"))
	if err != nil || granted.Status != Granted {
		t.Fatalf("acquire: %+v, %v", granted, err)
	}
	if got := eval("acquire", "c2.b", "mutex:1", 15000000, 16, "16 0 ").([]any); got[0] != int64(Queued) {
		t.Errorf("acquire of a second holder: %v", got)
	}
	if got := eval("renew", "c1.a", 15000000, granted.Token); got != int64(15000000) {
		t.Errorf("renew: %v", got)
	}
	if got := eval("release", "c1.a", granted.Token); got != int64(0) {
		t.Errorf("release: %v", got)
	}
	state, err := Snapshot{WaiterLife: engine.WaiterLife}.Read(eval("snapshot", 250, 1, 0))
	if err != nil || len(state.Holders) != 1 || state.Holders[0].ID != "c2.b" {
		t.Errorf("snapshot: %+v, %v", state, err)
	}
}

// The scripts read the clock of the store once and have no include left over.
func TestTexts(t *testing.T) {
	s, all := load(t), texts(t)
	all["renew without memory"], all["release without memory"], all["resize without memory"] = s.renewFull.text(), s.releaseFull.text(), s.resizeFull.text()
	for name, text := range all {
		if n := strings.Count(text, "call('TIME')"); n != 1 {
			t.Errorf("%s reads the clock %d times", name, n)
		}
		if strings.Contains(text, "--#") || strings.Contains(text, "virtual:") {
			t.Errorf("%s is not what production should run", name)
		}
	}
}

// Every fragment that a file includes is there.
func TestIncludes(t *testing.T) {
	entries, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		l := loader{fragments: readFragments}
		if l.expand(new(strings.Builder), string(text)); l.err != nil {
			t.Errorf("%s: %v", entry.Name(), l.err)
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
		int64(70_000_000), "", int64(0), []any{},
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
		Waiters: []Waiter{{ID: "c2.a", Weight: 4, Since: time.UnixMicro(6_000_000), Silent: 3*time.Second - time.Microsecond, Reason: "later"}},
		Dead:    []Waiter{{ID: "c2.b", Weight: 1, Since: time.UnixMicro(6_000_000), Silent: 3 * time.Second, Reason: "gone"}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
