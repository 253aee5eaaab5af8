package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
)

// RatedClock is a wall clock that runs at another rate than the machine's. The zero RatedClock is the machine's.
type RatedClock struct {
	since time.Time // when both showed the same, but for ahead
	gain  float64   // in seconds per second
	ahead time.Duration
	error time.Duration // of At, at most
}

// NewRatedClock returns a clock that shows the machine's time at since, and then gains so many seconds per second.
func NewRatedClock(since time.Time, gain float64) RatedClock {
	return RatedClock{since: since.Round(0), gain: gain}
}

// At returns what the clock shows at an instant of the machine's wall clock.
func (c RatedClock) At(t time.Time) time.Time {
	if c.gain == 0 {
		return t
	}
	return t.Add(c.ahead + time.Duration(float64(t.Sub(c.since))*c.gain))
}

// Real returns the instant of the machine's wall clock at which the clock shows t.
func (c RatedClock) Real(t time.Time) time.Time {
	if c.gain == 0 {
		return t
	}
	return c.since.Add(time.Duration(float64(t.Sub(c.since)-c.ahead) / (1 + c.gain)))
}

// Gain returns by how many seconds per second the clock runs fast: slow, if negative.
func (c RatedClock) Gain() float64 { return c.gain }

// Error returns what the clock of a server may differ from At: what it gains while the process starts, before it reads the clock
// first, and the error with which the Server has measured that. A reading may have come between the start and the measure.
func (c RatedClock) Error() time.Duration { return c.error }

// adjusted returns the clock after a measure: it is apart from At by so much, plus or minus within.
func (c RatedClock) adjusted(apart, within time.Duration) RatedClock {
	c.ahead, c.error = c.ahead+apart, max(c.error, apart.Abs()+within)
	return c
}

// environment makes a program that starts at an instant read the clock, by libfaketime. The program's monotonic clock
// remains the machine's. The C library follows, for its malloc: jemalloc, with which Redis is linked, reads the clock
// before libfaketime can find the real one.
func (c RatedClock) environment(library string, now time.Time) []string {
	return []string{
		"LD_PRELOAD=" + library + ":libc.so.6",
		fmt.Sprintf("FAKETIME=%+.6f x%.6f", c.At(now).Sub(now).Seconds(), 1+c.gain),
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
		"FAKETIME_DISABLE_SHM=1", // it is for several processes, and a killed server would leave it
	}
}

// errNoFaketime names what to install.
var errNoFaketime = errors.New("libfaketime is not installed: install it (Debian and Ubuntu: apt-get install faketime), or run make redis, which does so")

// findFaketime returns the library of libfaketime for programs of this machine.
func findFaketime() (string, error) {
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1", "/usr/local/lib/faketime/libfaketimeMT.so.1"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // the only error is that of a bad pattern
			return found[0], nil
		}
	}
	return "", errNoFaketime
}

// CanRateClocks reports whether libfaketime is installed, which WithClockRate needs.
func CanRateClocks() bool {
	_, err := findFaketime()
	return err == nil
}

// WithClockRate makes the server's wall clock gain so many seconds per second: 0.01 is 1 % fast, -0.01 is 1 % slow. It
// begins at the machine's time, and continues over restarts. Without libfaketime the server does not start.
func WithClockRate(gain float64) Option {
	return func(c *config) { c.clock = NewRatedClock(time.Now(), gain) }
}

// rated returns the environment of a server with its clock; nil: that of this process.
func (c config) rated() ([]string, error) {
	if c.clock.gain == 0 {
		return nil, nil
	}
	library, err := findFaketime()
	if err != nil {
		return nil, err
	}
	return append(os.Environ(), c.clock.environment(library, time.Now().Round(0))...), nil
}

// adjust measures by how much the server's clock is ahead. Of several readings the one counts during which the least time passed.
func (s *Server) adjust() error {
	const readings = 50
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	clock, least, apart := s.Clock(), startTimeout, time.Duration(0)
	err := s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		for range readings {
			from := time.Now().Round(0)
			shown, err := c.Time(ctx).Result()
			if err != nil {
				return err
			}
			if took := time.Since(from); took < least {
				least, apart = took, shown.Sub(clock.At(from.Add(took/2)))
			}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conf.clock = clock.adjusted(apart, least/2)
	return err
}
