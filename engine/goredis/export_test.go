package goredis

// WithFragments replaces fragments of the scripts, by name.
func WithFragments(f map[string]string) Option {
	return func(o *options) { o.fragments = f }
}
