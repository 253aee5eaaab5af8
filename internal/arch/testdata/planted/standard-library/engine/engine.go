package engine

import (
	_ "context"
	_ "crypto/rand"

	_ "example.org/uuid"                               // want
	_ "github.com/holdfast-go/holdfast/internal/queue" // want
)
