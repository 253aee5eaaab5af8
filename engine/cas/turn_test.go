package cas

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// The stamps of a living holder are the lowest for ever if its clock is behind. The lease of a dead one, with another TTL, has its turn
// all the same.
func TestTurnOfADeadHolderBesideAClockThatIsBehind(t *testing.T) {
	const living, dead = 30 * queue.Second, 10 * queue.Second
	turns := map[queue.Time]int{}
	for i := range 1000 {
		turns[turn([]sighted{{stamp: uint64(i), ttl: living}, {stamp: 1e15, ttl: dead}})]++
	}
	if turns[living] == 0 || turns[dead] < 100 {
		t.Errorf("of 1,000 turns each has %v", turns)
	}
}
