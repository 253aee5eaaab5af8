package script

// Clear makes a call that does what every script does besides its own work. It is repeated until
// the reply says that there is no more to clear.
func (s *Set) Clear(k Keys) Call { return s.clear.call(k) }

// More splits what a script returns: its reply, and whether it left some of what it
// cleared up for the calls that follow. Bounded work is what one script does.
func More(value any) (reply any, more bool) {
	list, ok := value.([]any)
	if !ok || len(list) != 2 || list[0] != int64(-1) {
		return value, false
	}
	return list[1], true
}
