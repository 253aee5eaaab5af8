package goredis

import (
	_ "github.com/holdfast-go/holdfast/engine"
	_ "github.com/holdfast-go/holdfast/engine/goredis/internal/script"
	_ "github.com/holdfast-go/holdfast/engine/memory"      // want
	_ "github.com/holdfast-go/holdfast/internal/redistest" // want
)
