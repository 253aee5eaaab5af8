package holdfast

import (
	_ "context"

	_ "github.com/holdfast-go/holdfast/engine"
	_ "github.com/holdfast-go/holdfast/engine/memory" // want
)
