package ledger

import (
	_ "github.com/holdfast-go/holdfast/internal/queue" // want
	_ "github.com/holdfast-go/holdfast/lab/history"
)
