package command

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "30": 30 * time.Second, "1.5": 1500 * time.Millisecond, "-1": -time.Second, "500ms": 500 * time.Millisecond,
		"1h30m": 90 * time.Minute, "1d": day, "0d": 0, "2d12h": 2*day + 12*time.Hour, "65535d": 65535 * day, "-1s": -time.Second,
	} {
		var got span
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want {
			t.Errorf("%q: %v, %v; want %v", text, time.Duration(got), err, want)
		}
	}
	for _, text := range []string{"", "d", "soon", "1d-5h", "-1d", "+1d", "1dd", "1.5d", "1h1d", "65536d", "1 d", "1w"} {
		if err := new(span).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a duration", text)
		}
	}
}
