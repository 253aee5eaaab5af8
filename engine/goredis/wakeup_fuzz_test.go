package goredis

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

// Any message is a wake-up: one that is malformed is a Resync of all, so that nobody waits in vain.
func FuzzWakeup(f *testing.F) {
	for _, text := range []string{"g 7 3000000 a.b", "m 1000000 a.b", "c a.b", "w a.b~", "b a.b", "r 3 a.b why", "r 9 a.b", "g x 1 a", "", "r -1  "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := parseWakeup(text)
		if err != nil {
			w = wakeupOf(text)
			if w != (engine.Wakeup{Kind: engine.Resync}) {
				t.Errorf("%q: %+v, want a Resync", text, w)
			}
			return
		}
		if len(w.ID)+len(w.Reason) > len(text) || w.Kind != engine.WakeGrant && w.Token != 0 {
			t.Errorf("%q: %+v", text, w)
		}
	})
}

// What is stored of a client is its own, or nothing.
func FuzzClient(f *testing.F) {
	f.Add("a", []byte(`{"n":"worker","h":"host","p":7}`))
	f.Add("a", []byte(`[`))
	f.Fuzz(func(t *testing.T, id string, text []byte) {
		if c, ok := parseClient(id, text); ok && c.ID != id || !ok && c != (engine.Client{}) {
			t.Errorf("%q: %+v, %v", text, c, ok)
		}
	})
}
