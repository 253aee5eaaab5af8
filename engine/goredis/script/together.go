package script

// MostTogether is how many calls fit into one of Together: enough to share its
// costs, and few enough to keep nobody waiting.
const MostTogether = 64

// Joins tells whether a call can go into one of Together.
func (s *Set) Joins(c Call) bool {
	return c.script.sha == s.acquire.sha || c.script.sha == s.release.sha
}

// Together makes one call of many for one server, MostTogether at most, that can
// go into it.
func (s *Set) Together(calls []Call) Call {
	room := 3
	for _, c := range calls {
		room += len(c.args) - coreArg + 1
	}
	args := make([]any, 0, room)
	args = append(args, "evalsha", s.together.sha, 2*len(calls))
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
	return Call{script: s.together, args: args}
}

// ReadTogether returns the replies to so many calls: nil for one that has to be
// made by itself. ok is false if the reply makes no sense.
func ReadTogether(value any, calls int) (replies []any, ok bool) {
	replies, ok = value.([]any)
	return replies, ok && len(replies) == calls
}
