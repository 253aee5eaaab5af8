package command

import "github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"

// guardAhead is a guard that is started during the first try: a process takes about as long to
// start as a free resource to acquire. A nil guardAhead is none.
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
