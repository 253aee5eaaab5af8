package quorum

// Crews is how many clients an engine knows.
func Crews(e *Engine) int {
	e.crews.mu.Lock()
	defer e.crews.mu.Unlock()
	return len(e.crews.all)
}
