package doctor

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

func TestPauses(t *testing.T) {
	s := start(t, "--enable-debug-command", "yes", "--latency-monitor-threshold", "1000")
	c := s.Client()
	if err := c.Do(t.Context(), "debug", "sleep", "0.2").Err(); err != nil {
		t.Fatal(err)
	}
	o := defaults()
	require(t, examine(t, o, s.URL()), "pauses", diagnosis.OK, "the longest known is 2[0-9][0-9]ms .DEBUG in the slow log.")
	o.TTL = time.Second
	r := examine(t, o, s.URL())
	f := require(t, r, "pauses", diagnosis.Warn, "DEBUG in the slow log")
	if ms, ok := f.Values["pause_ms"].(float64); !ok || ms < 200 {
		t.Errorf("values %v", f.Values)
	}
	require(t, r, "ttl", diagnosis.Warn, "pauses of up to 2[0-9][0-9]ms were seen")

	for name, value := range map[string]string{"slowlog-max-len": "0", "latency-monitor-threshold": "50"} {
		if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Do(t.Context(), "debug", "sleep", "0.2").Err(); err != nil {
		t.Fatal(err)
	}
	require(t, examine(t, o, s.URL()), "pauses", diagnosis.Warn, "event command of the latency monitor")
}

func TestTheSlowLogIsOff(t *testing.T) {
	s := start(t, "--slowlog-log-slower-than", "-1")
	require(t, examine(t, defaults(), s.URL()), "pauses", diagnosis.Unknown, "the slow log is off")
}
