package redistest

import (
	"errors"
	"os"
)

// Pause is not supported on Windows, which cannot stop and continue a process.
func Pause(*os.Process) error { return errors.ErrUnsupported }

// AwaitStopped is not supported here.
func AwaitStopped(*os.Process) error { return errors.ErrUnsupported }

// Resume is not supported here.
func Resume(*os.Process) error { return errors.ErrUnsupported }
