package command

import (
	"slices"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// guardAhead is a guard that starts while the command line is parsed and during the first try: a process takes
// about as long to start as a free resource to acquire. A nil guardAhead is none.
type guardAhead struct{ started chan startedGuard }

type startedGuard struct {
	guard *guard.Guard
	err   error
}

// startGuard starts a guard in the background.
func startGuard() *guardAhead {
	a := &guardAhead{make(chan startedGuard, 1)}
	go func() {
		g, err := guard.New()
		a.started <- startedGuard{g, err}
	}()
	return a
}

// guardFor starts a guard if the arguments look like those of a run that will need it. An error
// costs a process in vain: the guard ends with its parent.
func (e *env) guardFor(args []string) *guardAhead {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	// With -n, and with once, the first try often finds that there is nothing to run.
	idle := func(arg string) bool {
		return slices.Contains([]string{"-n", "--nonblock", "-h", "--help"}, arg)
	}
	if len(args) < 2 || args[0] != "run" || slices.ContainsFunc(args, idle) || e.job == nil && guard.OnTerminal() {
		return nil
	}
	return startGuard()
}

// take returns the guard, or starts one.
func (a *guardAhead) take() (*guard.Guard, error) {
	if a == nil {
		return guard.New()
	}
	s := <-a.started
	return s.guard, s.err
}

// drop ends the guard.
func (a *guardAhead) drop() {
	if a == nil {
		return
	}
	if s := <-a.started; s.err == nil {
		s.guard.Close()
	}
}
