package sqltable

import (
	"math"
	"time"
)

// never is a number that no message has.
const never = math.MaxInt64

// seen is which messages were read. Transactions may be committed in another order than that of
// their numbers, so each look reads again what came after the numbers of a time ago.
type seen struct {
	above   int64 // all numbers up to this one are old
	numbers map[int64]bool
	next    int64     // what above will be
	since   time.Time // when next was the highest number
	highest int64
}

// begin makes all messages up to a number old.
func (s *seen) begin(highest int64) {
	*s = seen{above: highest, next: highest, highest: highest, since: time.Now(), numbers: make(map[int64]bool)}
}

// possible reports whether the table can be the one that was read before.
func (s *seen) possible(highest int64) bool { return highest >= s.above }

// add reports whether a message is new.
func (s *seen) add(number int64) bool {
	if number <= s.above || s.numbers[number] {
		return false
	}
	s.numbers[number] = true
	return true
}

// advance takes the highest number of a look.
func (s *seen) advance(highest int64) {
	s.highest = max(s.highest, highest)
	if time.Since(s.since) < late {
		return
	}
	s.above, s.next, s.since = s.next, s.highest, time.Now()
	for n := range s.numbers {
		if n <= s.above {
			delete(s.numbers, n)
		}
	}
}
