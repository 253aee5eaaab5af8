package redistest

import "time"

func wait() { time.Sleep(1) } // want
