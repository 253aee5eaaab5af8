package redistest

import "errors"

// Windows cannot stop a process and continue it; the tests that do so run elsewhere.

func (p *process) pause() error { return errors.ErrUnsupported }

func (p *process) resume() error { return errors.ErrUnsupported }
