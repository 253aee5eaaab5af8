package queue

// Endings is the number of endings in memory.
func (q *Queue) Endings() int { return len(q.ended) }
