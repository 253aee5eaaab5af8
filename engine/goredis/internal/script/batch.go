package script

// MaxBatch is how many calls fit into one call of Batch: enough to share its costs, and few
// enough not to block Redis for long.
const MaxBatch = 64

// Joins reports whether Batch can merge a call.
func (s *Set) Joins(c Call) bool {
	return c.script == s.acquire || c.script == s.release
}

// Batch merges calls to one server into one call. There must be at most MaxBatch, and Joins must
// report true for each.
func (s *Set) Batch(calls []Call) Call {
	room := 3
	for _, c := range calls {
		room += len(c.args) - coreArg + 1
	}
	args := make([]any, 0, room)
	args = append(args, "evalsha", s.batch.sha(), 2*len(calls))
	for _, c := range calls {
		args = append(args, c.args[coreArg:firstArg]...)
	}
	for _, c := range calls {
		count := len(c.args) - firstArg
		if c.script == s.release {
			count = -count
		}
		args = append(args, count)
		args = append(args, c.args[firstArg:]...)
	}
	return Call{script: s.batch, args: args}
}

// ReadBatch returns the replies to the first of the merged calls: nil for a call that must be made
// alone. The others have not been made. ok is false if the reply is malformed.
func ReadBatch(value any, calls int) (replies []any, ok bool) {
	replies, ok = value.([]any)
	return replies, ok && 0 < len(replies) && len(replies) <= calls
}
