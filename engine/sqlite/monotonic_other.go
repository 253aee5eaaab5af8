//go:build !linux

package sqlite

import "time"

// monotonic is not known to be common to all processes here.
func monotonic() (t time.Duration, ok bool) { return 0, false }

func bootID() int64 { return 0 }
