package queue

import (
	_ "container/list"
	_ "context"      // want
	_ "math/rand/v2" // want
	_ "sort"
	_ "sync/atomic" // want
	_ "time"        // want
)

func run(f func()) {
	go f()            // want
	var done chan int // want
	select {          // want
	case <-done:
	}
}
