package command

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/metrics"
)

// metricsEvery is the time between two writings of --metrics-file.
const metricsEvery = 15 * time.Second

// lastSuccess is a metric that is carried over from one run to the next.
const lastSuccess = "holdfast_run_last_success_timestamp_seconds"

// runMetrics writes what this process sees of its lease to --metrics-file. Its methods do nothing without a file.
type runMetrics struct {
	file   string
	labels metrics.Labels
	stop   chan struct{}
	loop   sync.WaitGroup

	mu       sync.Mutex
	trouble  error // of the latest writing
	start    time.Time
	success  float64 // the time of the last success; 0: none is known
	acquired time.Time
	held     bool
	waited   time.Duration // until the lease was acquired
	lasted   time.Duration // of leases that have ended
	renewals [2]int        // done, failed
	left     time.Duration // of the trust window, after the latest renewal
}

// startMetrics writes the file for the first time, and from now on while the process runs.
func (c *guarded) startMetrics() (*runMetrics, error) {
	m := &runMetrics{file: c.MetricsFile, start: time.Now(), stop: make(chan struct{}),
		labels: metrics.Labels{"resource", strings.ToValidUTF8(strings.Join(c.resources(), ","), "\ufffd"), "verb", c.verb}}
	if m.file == "" {
		return m, nil
	}
	was, _, err := metrics.ReadFile(m.file, lastSuccess)
	if err != nil {
		return nil, fail(exitConfig, "%v; choose another --metrics-file", err)
	}
	m.success = was
	if m.write(nil); m.trouble != nil {
		return nil, fail(exitConfig, "%v; choose another --metrics-file", m.trouble)
	}
	m.loop.Go(func() {
		t := time.NewTicker(metricsEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				m.write(nil)
			case <-m.stop:
				return
			}
		}
	})
	return m, nil
}

// Renew implements holdfast.RenewHook.
func (m *runMetrics) Renew(e holdfast.RenewEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = e.Left
	if e.Err != nil {
		m.renewals[1]++
	} else {
		m.renewals[0]++
	}
}

// acquire is called when the lease is acquired.
func (m *runMetrics) acquire(waited time.Duration) {
	m.mu.Lock()
	m.acquired, m.held, m.waited = time.Now(), true, waited
	m.mu.Unlock()
	m.write(nil)
}

// release is called when the lease has ended.
func (m *runMetrics) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = false
	m.lasted += time.Since(m.acquired)
}

// end writes the file for the last time.
func (m *runMetrics) end(result error, say *reporter) {
	if m.file == "" {
		return
	}
	close(m.stop)
	m.loop.Wait()
	code := exitOK
	if result != nil {
		code = explain(result, nil).code
	}
	if m.write(&code); m.trouble != nil {
		say.notice("metrics-failed", []slog.Attr{slog.String("message", m.trouble.Error())}, "--metrics-file: %v", m.trouble)
	}
}

// write writes the file. code is the exit code if this is the end.
func (m *runMetrics) write(code *int) {
	if m.file == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var s metrics.Sample
	gauge := func(name, help string, value float64) { s.Gauge(name, help, value, m.labels) }
	now := time.Now()
	held, hold, waited := 0.0, m.lasted, m.waited
	if m.held {
		held, hold = 1, hold+now.Sub(m.acquired)
	}
	if m.acquired.IsZero() {
		waited = now.Sub(m.start)
	}
	gauge("holdfast_run_start_timestamp_seconds", "When the command holdfast began, in Unix time.", unixSeconds(m.start))
	gauge("holdfast_run_held", "Whether the lease is held: 1, otherwise 0.", held)
	gauge("holdfast_run_wait_seconds", "How long it waited for the lease, or has waited so far.", waited.Seconds())
	gauge("holdfast_run_hold_seconds", "How long the lease was held, so far; of several leases in a row, the sum.", hold.Seconds())
	for i, outcome := range []string{"done", "failed"} {
		s.Counter("holdfast_run_renewals_total", "Renewals of the lease.", float64(m.renewals[i]), append(m.labels[:len(m.labels):len(m.labels)], "outcome", outcome))
	}
	if m.renewals != [2]int{} {
		gauge("holdfast_run_renew_left_seconds", "Time left in which the lease could be trusted, at the latest renewal.", m.left.Seconds())
	}
	if code != nil {
		gauge("holdfast_run_end_timestamp_seconds", "When the command holdfast ended, in Unix time.", unixSeconds(now))
		gauge("holdfast_run_exit_code", "Exit code of the command holdfast.", float64(*code))
		if *code == exitOK {
			m.success = unixSeconds(now)
		}
	}
	if m.success != 0 {
		gauge(lastSuccess, "When the command holdfast last ended with exit code 0, in Unix time; kept from run to run.", m.success)
	}
	m.trouble = s.WriteFile(m.file)
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
