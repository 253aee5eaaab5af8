package script

// MaxBatch is how many calls fit into one of Batch: enough to share its
// costs, and few enough to keep nobody waiting.
const MaxBatch = 64

// Joins tells whether a call can go into one of Batch.
func (s *Set) Joins(c Call) bool {
	return c.script.sha == s.acquire.sha || c.script.sha == s.release.sha
}

// Batch makes one call of many for one server, MaxBatch at most, that can
// go into it.
func (s *Set) Batch(calls []Call) Call {
	room := 3
	for _, c := range calls {
		room += len(c.args) - coreArg + 1
	}
	args := make([]any, 0, room)
	args = append(args, "evalsha", s.batch.sha, 2*len(calls))
	for _, c := range calls {
		args = append(args, c.args[coreArg:firstArg]...)
	}
	for _, c := range calls {
		count := len(c.args) - firstArg
		if c.script.sha == s.release.sha {
			count = -count
		}
		args = append(args, count)
		args = append(args, c.args[firstArg:]...)
	}
	return Call{script: s.batch, args: args}
}

// ReadBatch returns the replies to so many calls: nil for one that has to be
// made by itself. ok is false if the reply makes no sense.
func ReadBatch(value any, calls int) (replies []any, ok bool) {
	replies, ok = value.([]any)
	return replies, ok && len(replies) == calls
}
