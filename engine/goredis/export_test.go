package goredis

// WithFragments replaces fragments of the scripts, by name.
func WithFragments(f map[string]string) Option {
	return func(o *options) { o.fragments = f }
}

// Classify says of an error of go-redis whether asking again may help.
var Classify = classify

// Waiting is how many calls wait for a lane.
func (e *Engine) Waiting() int {
	cb := e.combiners.single
	cb.mu.Lock()
	defer cb.mu.Unlock()
	return len(cb.line)
}
