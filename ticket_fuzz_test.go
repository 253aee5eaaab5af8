package holdfast

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// A text that parseTicket accepts is a lease that could be; any other is ErrInvalid.
func FuzzTicket(f *testing.F) {
	valid, err := json.Marshal(ticket{Prefix: "p", Name: "n", Kind: "mutex", Capacity: 1, Weight: 1, ID: "a.b", Token: 7, TTL: 30_000})
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range []string{string(valid), `{}`, `[`, ``} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		_, _ = parseTicket(body)
		got, err := parseTicket(ticketMark + base64.RawURLEncoding.EncodeToString([]byte(body)))
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: %v, want ErrInvalid", body, err)
			}
			return
		}
		if got.TTL < MinTTL.Milliseconds() || got.TTL > MaxTTL.Milliseconds() || got.Weight < 1 || got.Weight > got.Capacity ||
			got.Capacity > MaxCapacity || got.ID == "" || got.Name == "" {
			t.Errorf("%q is accepted as %+v", body, got)
		}
	})
}

// A TTL that overflows a time.Duration is no TTL.
func TestTicketOfAnImpossibleTTL(t *testing.T) {
	const wraps = int64(1<<63-1)/int64(time.Millisecond)*2 + 30_002 // as a Duration: about 30 s
	for _, ttl := range []int64{wraps, -1, 0, 1 << 62} {
		h := ticketOf(t, ttl)
		if _, err := parseTicket(h); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d ms: %v, want ErrInvalid", ttl, err)
		}
	}
	if _, err := parseTicket(ticketOf(t, 30_000)); err != nil {
		t.Error(err)
	}
}

func ticketOf(t *testing.T, ttl int64) string {
	t.Helper()
	b, err := json.Marshal(ticket{Prefix: "p", Name: "n", Kind: "mutex", Capacity: 1, Weight: 1, ID: "a.b", Token: 7, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return ticketMark + base64.RawURLEncoding.EncodeToString(b)
}
