package diagnosis

import (
	"context"
	"errors"
	"strings"
)

// OneLine formats an error in one line.
func OneLine(err error) string {
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "no answer in time"
	}
	return strings.Join(strings.Fields(text), " ")
}
