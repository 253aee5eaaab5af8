package script

import _ "github.com/holdfast-go/holdfast/internal/queue" // want
