//go:build !linux || !amd64

package process

import (
	"errors"
	"time"
)

// canStep is false: the wall clock of a process cannot be stepped here.
const canStep = false

// wall is a wall clock that cannot be stepped.
type wall struct{}

func openWall() (*wall, error) { return nil, errors.ErrUnsupported }

func (*wall) set(time.Duration) error { return errors.ErrUnsupported }
