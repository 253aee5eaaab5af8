package x

import "time"

func pause() { time.Sleep(1) }
