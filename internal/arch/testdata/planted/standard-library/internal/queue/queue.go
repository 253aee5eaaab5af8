package queue

import (
	_ "container/heap"

	_ "github.com/holdfast-go/holdfast/engine" // want
)
