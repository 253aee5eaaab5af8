package command

import (
	"context"
	"fmt"
	"os"
	"time"
)

// watchFlag repeats the output of a verb.
type watchFlag struct {
	Watch *span `placeholder:"D" help:"Repeat every D, such as 2s, until interrupted; a terminal is cleared each time."`
}

// clearScreen moves to the upper left corner of a terminal and clears it.
const clearScreen = "\x1b[H\x1b[2J"

// watch shows once, or with --watch until ctx ends.
func (w watchFlag) watch(ctx context.Context, e *env, show func() error) error {
	var again <-chan time.Time
	clear := ""
	if w.Watch != nil {
		t := time.NewTicker(max(time.Duration(*w.Watch), 100*time.Millisecond))
		defer t.Stop()
		again = t.C
		if f, ok := e.stdout.(*os.File); ok {
			if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
				clear = clearScreen
			}
		}
	}
	for {
		fmt.Fprint(e.stdout, clear)
		if err := show(); err != nil || again == nil {
			return err
		}
		select {
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}
