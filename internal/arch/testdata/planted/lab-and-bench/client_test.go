package holdfast

import (
	_ "github.com/holdfast-go/holdfast/bench" // want
	_ "github.com/holdfast-go/holdfast/labour"
)
