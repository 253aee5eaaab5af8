package goredis

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// A program that locks some dozens of resources again and again finds their keys
// made; however many it locks, it finds the right ones.
func TestKeyCacheKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	for names, most := range map[int]float64{64: 0.1, 10_000: 1} {
		k := &keyCache{seed: maphash.MakeSeed()}
		made := 0
		for round := range 20 {
			for i := range names {
				r := engine.Resource{Prefix: "p", Name: fmt.Sprint("stock:", i)}
				s, _ := k.set(r)
				if s.find(r) == nil && round > 0 {
					made++
				}
				keys, err := k.get(r)
				if want := fmt.Sprintf("p:{stock:%d}", i); err != nil || keys.Core() != want {
					t.Fatalf("got %q, %v, want %q", keys.Core(), err, want)
				}
			}
		}
		if part := float64(made) / float64(19*names); part > most {
			t.Errorf("%d names: made again in %.2f of all cases, want at most %.2f", names, part, most)
		}
	}
}
