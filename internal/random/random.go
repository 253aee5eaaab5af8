// Package random runs a test on random input, and shrinks an input that fails. It is for
// tests only.
//
// A Generator makes a value out of choices, which are numbers below a bound. The choices of
// a failing run are recorded, and the run is repeated with fewer and smaller ones as
// long as it fails: 0 is the simplest choice of each generator.
package random

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SeedEnv in the environment is the seed of the first run; Check then makes that run alone.
const SeedEnv = "HOLDFAST_SEED"

// shrinkFor bounds how long a failing input is shrunk.
const shrinkFor = 10 * time.Second

// T is one run of a check. It is not safe for concurrent use.
type T struct {
	rng    *rand.Rand
	given  []uint64 // choices to repeat; those beyond are 0, or random with rng
	made   []uint64
	depth  int // of the generators that draw
	drawn  []draw
	failed []string
}

// draw is a value that the test has drawn.
type draw struct {
	name  string
	value any
}

// failure is the panic of Fatalf.
type failure struct{}

// Check runs the test count times, each with a seed of its own, and fails t with the
// shrunk input of the first run that fails.
func Check(t testing.TB, count int, test func(t *T)) {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(SeedEnv); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", SeedEnv, err)
		}
		seed, count = given, 1
	}
	for ; count > 0; count, seed = count-1, seed+1 {
		r := seeded(seed)
		r.run(test)
		if t.Failed() {
			t.Fatalf("in the run of %s=%d", SeedEnv, seed)
		}
		if len(r.failed) > 0 {
			t.Fatalf("%vThe run before it was shrunk: %s=%d", r.shrink(test), SeedEnv, seed)
		}
	}
}

// String returns the failures and what was drawn, in lines.
func (t *T) String() string {
	var b strings.Builder
	for _, text := range t.failed {
		fmt.Fprintln(&b, text)
	}
	for _, d := range t.drawn {
		fmt.Fprintf(&b, "%s: %+v\n", d.name, d.value)
	}
	return b.String()
}

func seeded(seed uint64) *T { return &T{rng: rand.New(rand.NewPCG(seed, 0))} }

// run runs the test once. A panic is a failure of the run, too.
func (t *T) run(test func(t *T)) {
	defer func() {
		switch v := recover().(type) {
		case nil, failure:
		default:
			t.Errorf("panic: %v", v)
		}
	}()
	test(t)
}

// shrink returns the simplest failing run that it finds.
func (t *T) shrink(test func(t *T)) *T {
	limit := time.Now().Add(shrinkFor)
	try := func(choices []uint64) bool {
		r := &T{given: choices}
		r.run(test)
		if len(r.failed) == 0 || !simpler(r.made, t.made) {
			return false
		}
		t = r
		return true
	}
	for better := true; better; {
		better = false
		for size := min(len(t.made), 64); size > 0; size = min(size-1, max(size/2, 8)) { // without some
			for i := len(t.made) - size; i >= 0 && time.Now().Before(limit); i -= max(1, size/8) {
				if i+size <= len(t.made) && try(slices.Delete(slices.Clone(t.made), i, i+size)) {
					better = true
				}
			}
		}
		for i := 0; i < len(t.made); i++ { // with smaller ones
			for by := t.made[i]; by > 0 && i < len(t.made) && time.Now().Before(limit); by /= 2 {
				smaller := slices.Clone(t.made)
				smaller[i] -= min(by, smaller[i])
				if try(smaller) {
					better = true
				}
			}
		}
	}
	return t
}

// simpler reports whether choices are fewer, or as many and smaller.
func simpler(a, b []uint64) bool {
	return len(a) < len(b) || len(a) == len(b) && slices.Compare(a, b) < 0
}

// choice returns a number below n.
func (t *T) choice(n uint64) uint64 {
	v := uint64(0)
	switch {
	case len(t.made) < len(t.given):
		v = min(t.given[len(t.made)], n-1)
	case t.rng != nil:
		v = t.rng.Uint64N(n)
	}
	t.made = append(t.made, v)
	return v
}

// Errorf notes a failure of the run.
func (t *T) Errorf(format string, args ...any) {
	t.failed = append(t.failed, fmt.Sprintf(format, args...))
}

// Fatalf notes a failure and ends the run.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(failure{})
}

// Generator makes random values.
type Generator[V any] struct{ make func(t *T) V }

// Custom returns the generator whose values are those of a function, which draws from t.
func Custom[V any](f func(t *T) V) *Generator[V] { return &Generator[V]{f} }

// Draw returns a value. The name stands before it in the report of a failure.
func (g *Generator[V]) Draw(t *T, name string) V {
	t.depth++
	v := g.make(t)
	t.depth--
	if t.depth == 0 {
		t.drawn = append(t.drawn, draw{name, v})
	}
	return v
}

// Seeded returns the value of a seed.
func (g *Generator[V]) Seeded(seed uint64) V { return g.make(seeded(seed)) }

// IntRange draws from low to high. Of a wide range, small values are drawn more often.
func IntRange[N int | int64](low, high N) *Generator[N] {
	return Custom(func(t *T) N {
		n := uint64(high-low) + 1
		if n > 16 && t.choice(4) == 0 {
			n = min(n, 1<<t.choice(uint64(bits.Len64(n))))
		}
		return low + N(t.choice(n))
	})
}

// Bool draws false or true.
func Bool() *Generator[bool] { return Custom(func(t *T) bool { return t.choice(2) == 1 }) }

// SampledFrom draws one of the values.
func SampledFrom[V any](values []V) *Generator[V] {
	return Custom(func(t *T) V { return values[t.choice(uint64(len(values)))] })
}

// SliceOfN draws a slice of least to most values.
func SliceOfN[V any](of *Generator[V], least, most int) *Generator[[]V] {
	return Custom(func(t *T) []V {
		var out []V
		// An element follows its own choice, so that the two can be left out together.
		for len(out) < least || len(out) < most && t.choice(uint64(2+(most-least)/2)) > 0 {
			out = append(out, of.make(t))
		}
		return out
	})
}

// Permutation draws an order of the values.
func Permutation[V any](values []V) *Generator[[]V] {
	return Custom(func(t *T) []V {
		out := slices.Clone(values)
		for i := range out {
			j := i + int(t.choice(uint64(len(out)-i)))
			out[i], out[j] = out[j], out[i]
		}
		return out
	})
}
