package random

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recorder is a testing.TB that keeps its failure.
type recorder struct {
	testing.TB
	said string
}

type ended struct{}

func (r *recorder) Helper()      {}
func (r *recorder) Failed() bool { return r.said != "" }
func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	panic(ended{})
}

// checked returns the report of a check that fails.
func checked(t *testing.T, test func(t *T)) string {
	r := &recorder{TB: t}
	func() {
		defer func() {
			if _, ok := recover().(ended); !ok {
				t.Fatal("the check did not fail")
			}
		}()
		Check(r, 1000, test)
	}()
	return r.said
}

func TestFailuresAreShrunk(t *testing.T) {
	for name, test := range map[string]func(t *T){
		"n: 1000": func(t *T) {
			if n := IntRange(0, 100_000).Draw(t, "n"); n >= 1000 {
				t.Fatalf("too large")
			}
		},
		"all: [0 0 7]": func(t *T) {
			all := SliceOfN(IntRange(0, 9), 0, 30).Draw(t, "all")
			if len(all) > 2 && all[len(all)-1] == 7 {
				t.Errorf("a 7 at the end")
			}
		},
		"all: [b a]": func(t *T) {
			all := SliceOfN(SampledFrom([]string{"a", "b", "c"}), 0, 30).Draw(t, "all")
			if i := slices.Index(all, "b"); i >= 0 && slices.Contains(all[i:], "a") {
				panic("a after b")
			}
		},
	} {
		if said := checked(t, test); !strings.Contains(said, name+"\n") {
			t.Errorf("want %q, got:\n%s", name, said)
		}
	}
}

func TestSeeds(t *testing.T) {
	g := SliceOfN(IntRange(-5, 5), 3, 10)
	a, b := g.Seeded(1), g.Seeded(1)
	if !slices.Equal(a, b) || len(a) < 3 || len(a) > 10 {
		t.Errorf("%v and %v", a, b)
	}
	said := checked(t, func(t *T) { t.Fatalf("%d", IntRange(0, 1<<40).Draw(t, "n")) })
	_, seed, _ := strings.Cut(said, SeedEnv+"=")
	t.Setenv(SeedEnv, seed)
	var first, second int
	Check(t, 100, func(t *T) { first = IntRange(0, 1<<40).Draw(t, "n") })
	Check(t, 100, func(t *T) { second = IntRange(0, 1<<40).Draw(t, "n") })
	if first != second {
		t.Errorf("%d, then %d", first, second)
	}
}

func TestRanges(t *testing.T) {
	seen := map[int]bool{}
	Check(t, 2000, func(t *T) {
		n := IntRange(-20, 20).Draw(t, "n")
		if n < -20 || n > 20 {
			t.Fatalf("out of range")
		}
		seen[n] = true
	})
	if len(seen) != 41 {
		t.Errorf("only %d of 41 values were drawn", len(seen))
	}
}
