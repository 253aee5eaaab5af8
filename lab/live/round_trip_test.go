package live

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A round trip lasts from the first request without a response to the next response, an error or
// the end of the connection. Waiting for a message without a request is none.
func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		start := time.Now()
		var trips [][2]time.Duration
		c := &timedConn{Conn: near, late: func(from, to time.Time) {
			trips = append(trips, [2]time.Duration{from.Sub(start), to.Sub(start)})
		}}
		go func() {
			b := make([]byte, 1)
			for range 5 {
				_, _ = far.Read(b)
			}
		}()
		request := func(after time.Duration) {
			time.Sleep(after)
			if _, err := c.Write([]byte{1}); err != nil {
				t.Error(err)
			}
		}
		response := func(after time.Duration) {
			go func() {
				time.Sleep(after)
				_, _ = far.Write([]byte{2})
			}()
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		}
		request(0)
		response(leastStall - 1) // short
		request(1)
		request(time.Millisecond)
		response(20 * time.Millisecond)
		response(time.Second) // a message
		request(0)
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Millisecond)) // a pipe has them
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("no error")
		}
		request(0)
		time.Sleep(40 * time.Millisecond)
		_ = c.Close()
		const first, second, third = leastStall, leastStall + 21*time.Millisecond + time.Second, leastStall + 51*time.Millisecond + time.Second
		want := [][2]time.Duration{{first, first + 21*time.Millisecond}, {second, second + 30*time.Millisecond}, {third, third + 40*time.Millisecond}}
		if len(trips) != len(want) || trips[0] != want[0] || trips[1] != want[1] || trips[2] != want[2] {
			t.Errorf("round trips %v, want %v", trips, want)
		}
	})
}
