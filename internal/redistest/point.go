package redistest

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// Point is a fault at a certain command. A test must assert that it was hit: a fault that never
// happened proves nothing.
type Point struct {
	match []byte
	hit   chan struct{}
}

// Hit is closed when the fault has happened.
func (p *Point) Hit() <-chan struct{} { return p.hit }

// RequireHit fails the test unless the fault happens within 10 s.
func (p *Point) RequireHit(t testing.TB) {
	t.Helper()
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	select {
	case <-p.hit:
	case <-timeout.C:
		t.Fatalf("redistest: no command with %q was sent", p.match)
	}
}

// take disarms and returns the first armed point that the bytes contain.
func (p *Proxy) take(b []byte) *Point {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.points, func(point *Point) bool { return bytes.Contains(b, point.match) })
	if i < 0 {
		return nil
	}
	point := p.points[i]
	p.points = slices.Delete(p.points, i, i+1)
	return point
}

// reach returns how many bytes before a chunk a match may begin if it ends in the chunk.
func (p *Proxy) reach() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest := 1
	for _, point := range p.points {
		longest = max(longest, len(point.match))
	}
	return longest - 1
}
