package command

import (
	"context"
	"fmt"
	"time"
)

// namesCmd is `holdfast names`, which the scripts of `holdfast completion` run.
type namesCmd struct {
	Start text `arg:"" optional:"" help:"How the names begin."`
}

const (
	namesTimeout = 500 * time.Millisecond
	maxNames     = 1000
)

// Run prints the names of resources in use that begin with the argument. If the store does not
// answer soon, it prints nothing. Names that would have to be quoted are left out, since a shell
// expands what it completes.
func (c *namesCmd) Run(e *env) error {
	plain := func(name text) bool { return name == "" || shellWord(name) == string(name) }
	s, err := e.open()
	if err != nil || !plain(c.Start) {
		return nil // a completion reports no errors
	}
	// The session is not closed, which could take as long again: the process ends.
	ctx, cancel := context.WithTimeout(context.Background(), namesTimeout)
	defer cancel()
	n := 0
	for snap, err := range s.List(ctx, string(c.Start)+"*") {
		if err != nil || n == maxNames {
			return nil
		}
		if plain(text(snap.Resource)) {
			n++
			fmt.Fprintln(e.stdout, snap.Resource)
		}
	}
	return nil
}
