package queue

// Tombstones is the number of tombstones in memory.
func (q *Queue) Tombstones() int { return len(q.ended) }
