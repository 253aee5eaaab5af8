package holdfast

import (
	_ "example.org/cron" // want
	_ "log/slog"

	_ "github.com/holdfast-go/holdfast/engine"
)
