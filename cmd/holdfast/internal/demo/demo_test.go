package demo

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

func TestStockRefusesLowerTokens(t *testing.T) {
	ctx := context.Background()
	embedded, err := StartEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Stop()
	st, err := store.Opener{}.Open(embedded.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := newStock(st.Client(), "test")
	if err := s.fill(ctx, 10); err != nil {
		t.Fatal(err)
	}
	const early, late = 1<<52 + 1, 1<<52 + 2 // equal as floats of 14 digits
	if units, err := s.claim(ctx, early); units != 10 || err != nil {
		t.Fatalf("claim: %d, %v", units, err)
	}
	if _, err := s.claim(ctx, late); err != nil { // a read claims the stock for its token
		t.Fatal(err)
	}
	err = s.writeFenced(ctx, early, 9)
	if stale, ok := errors.AsType[*staleError](err); !ok || stale.top != late {
		t.Errorf("write with a lower token: %v", err)
	}
	for range 2 { // a repeated command sells once
		if err := s.writeFenced(ctx, late, 9); err != nil {
			t.Error(err)
		}
	}
	if left, sold, err := s.count(ctx); left != 9 || sold != 1 || err != nil {
		t.Errorf("left %d, sold %d, %v", left, sold, err)
	}
}

func TestClaimsFailWhenTheFiguresDo(t *testing.T) {
	good := func() []Act {
		return []Act{
			{Stock: 200, Sold: 300},
			{Stock: 200, Sold: 200, Locked: true},
			{Stock: 200, Sold: 200, Locked: true, Refused: 1, Takeover: time.Second, Paused: time.Second, Knew: true},
		}
	}
	for name, spoil := range map[string]func([]Act){
		"nothing":            func([]Act) {},
		"no overselling":     func(a []Act) { a[0].Sold = 200 },
		"oversold":           func(a []Act) { a[1].Sold++ },
		"not sold out":       func(a []Act) { a[1].Left = 1 },
		"oversold by faults": func(a []Act) { a[2].Sold++ },
		"no takeover":        func(a []Act) { a[2].Takeover = 0 },
		"late write got in":  func(a []Act) { a[2].Refused = 0 },
		"lease did not know": func(a []Act) { a[2].Knew = false },
	} {
		acts := good()
		spoil(acts)
		failed := 0
		for _, c := range (&Player{Acts: acts}).Claims() {
			if !c.Held {
				failed++
			}
		}
		if (failed > 0) != (name != "nothing") {
			t.Errorf("%s: %d claims failed", name, failed)
		}
	}
}

func TestPushClaimsFailWhenTheFiguresDo(t *testing.T) {
	for name, spoil := range map[string]func(plain, once *Push){
		"nothing":       func(_, _ *Push) {},
		"lock enough":   func(plain, _ *Push) { plain.Again = 0 },
		"two reports":   func(_, once *Push) { once.Reports = 2 },
		"no report":     func(_, once *Push) { once.Reports = 0 },
		"pushed twice":  func(_, once *Push) { once.Once, once.Again = 59, 1 },
		"not pushed":    func(_, once *Push) { once.Once, once.Missed = 59, 1 },
		"nobody killed": func(_, once *Push) { once.Killed = false },
		"no takeover":   func(_, once *Push) { once.Takeover = 0 },
	} {
		plain := Push{Reports: 2, Users: 60, Again: 60}
		once := Push{Reports: 1, Users: 60, Once: 60, Killed: true, Takeover: time.Second, Outage: time.Second}
		spoil(&plain, &once)
		failed := 0
		for _, c := range pushClaims([]Push{plain, once}) {
			if !c.Held {
				failed++
			}
		}
		if (failed > 0) != (name != "nothing") {
			t.Errorf("%s: %d claims failed", name, failed)
		}
	}
}

// The embedded server keeps its data and its address over an outage.
func TestOutageKeepsTheData(t *testing.T) {
	embedded, err := StartEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Stop()
	st, err := store.Opener{}.Open(embedded.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.Client().Set(t.Context(), "k", "v", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if err := embedded.Outage(t.Context(), time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if v, err := st.Client().Get(t.Context(), "k").Result(); v != "v" || err != nil {
		t.Errorf("got %q, %v", v, err)
	}
}
