package holdfast

import (
	_ "example.org/cron" // want
	_ "log/slog"

	_ "github.com/adhocore/gronx"
	_ "github.com/adhocore/gronx/pkg/tasker" // want

	_ "github.com/holdfast-go/holdfast/engine"
)
