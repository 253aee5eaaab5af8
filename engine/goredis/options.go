package goredis

import (
	"fmt"
	"time"
)

// Option changes how an Engine works.
type Option func(*options)

type options struct {
	retention time.Duration
	// fragments replaces parts of the scripts; for tests only.
	fragments map[string]string
}

// Limits of WithRetention.
const (
	defaultRetention = 10 * time.Minute
	minRetention     = time.Minute
)

// WithRetention sets how long a resource is remembered after its last lease
// could have ended: its last fencing token and the holder IDs that ended. Within
// this time a late copy of a request is refused, and tokens grow even if the
// clock of Redis is set back. Default 10 min, at least 1 min; every engine of
// one application should use the same.
func WithRetention(d time.Duration) Option {
	return func(o *options) { o.retention = d }
}

func (o options) check() error {
	if o.retention < minRetention {
		return fmt.Errorf("goredis: retention %v is below %v", o.retention, minRetention)
	}
	return nil
}
