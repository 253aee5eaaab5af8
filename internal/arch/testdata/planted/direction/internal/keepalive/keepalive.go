package keepalive

import (
	_ "github.com/holdfast-go/holdfast" // want
	_ "github.com/holdfast-go/holdfast/engine"
)
