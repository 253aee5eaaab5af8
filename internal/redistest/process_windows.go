package redistest

import (
	"errors"
	"os"
)

// Windows cannot stop a process and continue it; the tests that do so run elsewhere.

// Pause is not supported here.
func Pause(*os.Process) error { return errors.ErrUnsupported }

func (p *process) resume() error { return errors.ErrUnsupported }
