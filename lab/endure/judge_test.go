package endure

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// series of n samples by a formula of the number of the sample.
func formula(n int, value func(i int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = value(i)
	}
	return out
}

func TestJudgeOfGoodAndBadSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := func(by float64) float64 { return by * (2*r.Float64() - 1) }
	small := Limit{Abs: 4}
	heap := Limit{Abs: megabyte, Rel: 0.1}
	for _, c := range []struct {
		name   string
		values []float64
		limit  Limit
		why    string // a part of it; empty: flat
	}{
		{"constant", formula(50, func(int) float64 { return 31 }), small, ""},
		{"noise within the allowance", formula(50, func(int) float64 { return 31 + math.Round(noise(3)) }), small, ""},
		{"large noise without a trend", formula(50, func(int) float64 { return 20e6 + noise(3e6) }), heap, ""},
		{"a burst in the middle", formula(50, func(i int) float64 {
			if i == 20 {
				return 500
			}
			return 31
		}), small, ""},
		{"a burst in the last sample", formula(50, func(i int) float64 {
			if i == 49 {
				return 500
			}
			return 31
		}), small, ""},
		{"one step within the allowance, early", formula(50, func(i int) float64 {
			if i < 6 {
				return 31
			}
			return 33
		}), small, ""},
		{"it falls", formula(50, func(i int) float64 { return 100 - float64(i) }), small, ""},
		{"a period of four", formula(48, func(i int) float64 { return 31 + float64(i%4) }), small, ""},
		{"one for each failover", formula(50, func(i int) float64 { return 31 + float64(i) }), small, "it grew by 37"},
		{"one for each failover, in few samples", formula(6, func(i int) float64 { return 31 + float64(i) }), small, "it rises steadily, by 5"},
		{"one for each fifth failover", formula(50, func(i int) float64 { return 31 + float64(i/5) }), small, "it grew by 7"},
		{"one for each fifth failover, half an hour", formula(25, func(i int) float64 { return 31 + float64(i/5) }), small, "it rises steadily"},
		{"one for each second failover, with noise", formula(50, func(i int) float64 { return 31 + float64(i/2) + math.Round(noise(3)) }), small, "it grew"},
		{"a step at the end", formula(50, func(i int) float64 {
			if i < 37 {
				return 31
			}
			return 36
		}), small, "it grew by 5, more than 4"},
		{"30 bytes for each of 3,600 names a minute", formula(50, func(i int) float64 { return 20e6 + 108e3*float64(i) + noise(2e5) }), heap, "it grew"},
		{"5 bytes for each of them", formula(50, func(i int) float64 { return 20e6 + 18e3*float64(i) + noise(3e4) }), heap, "it rises steadily"},
		{"it doubles late", formula(50, func(i int) float64 { return 20e6 * max(1, float64(i)/25) }), heap, "it grew"},
		{"too few", formula(5, func(int) float64 { return 1 }), small, "5 samples show nothing"},
		{"none", nil, small, "0 samples show nothing"},
	} {
		v := Judge(Series{Name: c.name, Values: c.values, Limit: c.limit})
		if c.why == "" && v.Why != "" || !strings.Contains(v.Why, c.why) {
			t.Errorf("%s: want %q, got\n%v", c.name, c.why, v)
		}
	}
}

// Noise alone is called growth no more than once in a thousand runs.
func TestJudgeOfNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	for range 5000 {
		n := 10 + r.IntN(45)
		v := Judge(Series{Values: formula(n, func(int) float64 { return 100 + 2*r.NormFloat64() }), Limit: Limit{Abs: 8}})
		if v.Why != "" {
			wrong++
		}
	}
	if wrong > 5 {
		t.Errorf("%d of 5000 series of noise are not flat", wrong)
	}
}

// Each quantity of a sample is in a series: a leak of it alone is found.
func TestEachQuantityIsJudged(t *testing.T) {
	leaks := map[string]func(*Sample, int){
		"heap":                     func(s *Sample, i int) { s.Heap += uint64(i) * megabyte },
		"heap objects":             func(s *Sample, i int) { s.Objects += uint64(i) * 1000 },
		"goroutines":               func(s *Sample, i int) { s.Goroutines += i },
		"descriptors":              func(s *Sample, i int) { s.Descriptors += i },
		"sockets":                  func(s *Sample, i int) { s.Sockets += i },
		"connections at the store": func(s *Sample, i int) { s.Store.Connections += i },
		"leases":                   func(s *Sample, i int) { s.Leases += i },
		"releases not confirmed":   func(s *Sample, i int) { s.Releases += i },
		"keys":                     func(s *Sample, i int) { s.Store.Keys["core"] += 100 * i },
		"memory of the store":      func(s *Sample, i int) { s.Store.Memory += int64(i) * megabyte },
	}
	for name, leak := range leaks {
		var samples []Sample
		for i := range 30 {
			s := Sample{Heap: 8 * megabyte, Objects: 40_000, Goroutines: 30, Descriptors: 30, Sockets: 20,
				Store: Census{Connections: 20, Memory: 8 * megabyte, Keys: map[string]int{"core": 3000, "line": 500}}}
			leak(&s, i)
			samples = append(samples, s)
		}
		var found []string
		all := seriesOf(samples, Plan{For: time.Hour, Store: onSentinel})
		for _, s := range all {
			if v := Judge(s); v.Why != "" {
				found = append(found, v.Name)
			}
		}
		if len(found) != 1 || found[0] != name {
			t.Errorf("a leak of %s: found %q", name, found)
		}
		if len(all) != len(leaks) {
			t.Errorf("%d series, and %d leaks are tried", len(all), len(leaks))
		}
	}
}
