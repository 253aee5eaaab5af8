package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
)

// demoCmd is `holdfast demo`. The scene itself is package internal/demo.
type demoCmd struct {
	JSON bool `help:"Print figures and claims as one JSON object at the end; progress goes to standard error."`
}

// Help is the long text of --help.
func (*demoCmd) Help() string {
	return `Three services with two nodes each, every node its own process, sell one stock: first without a lock, then with
Holdfast, then while one holder is killed and another one is stopped past its TTL and resumed. Then two nodes
build the report of the day and two push it to each user: first with a lock alone, which is not enough, then
once, while a node is killed and, without --store, the store is down for a while. All figures are measured. Exit
code 0 means that every claim held. It takes less than 20 seconds.

Without --store it uses an embedded stand-in for Redis, and nothing needs to be installed. With --store it uses
that store, below a prefix of its own, which is deleted at the end in a Redis and expires in other stores. The stock
is in that store too if it is a Redis; otherwise it is in the stand-in, and the locks are in the store.

Examples:
	holdfast demo
	holdfast --store redis://127.0.0.1:6379 demo
	holdfast --store postgres://app@db/app demo`
}

// Run plays the scene.
func (c *demoCmd) Run(e *env) error {
	out := e.stdout
	if c.JSON {
		out = e.stderr
	}
	url := e.url
	var outage func(context.Context, time.Duration) error
	if !e.urlGiven {
		embedded, err := demo.StartEmbedded()
		if err != nil {
			return fail(exitFailed, "%v", err)
		}
		defer embedded.Stop()
		url, outage = embedded.URL(), embedded.Outage
		fmt.Fprintf(out, "The store is an embedded stand-in for Redis (miniredis, %s): for this demo, not for production.\n", url)
		fmt.Fprint(out, "Play on a real one with: holdfast --store URL demo\n\n")
	}
	player, err := demo.Open(url, e.opener, out, drawing(out))
	if err != nil {
		return err
	}
	player.Outage = outage
	switch {
	case e.urlGiven && player.StockApart():
		fmt.Fprintf(out, "The locks are in the store of --store, below the prefix %s, and expire. The stock is in an embedded stand-in for Redis (miniredis). The store is not stopped.\n\n", player.Prefix())
	case e.urlGiven:
		fmt.Fprintf(out, "The store is the one of --store; all keys begin with %s and are deleted at the end. It is not stopped, as the stand-in is.\n\n", player.Prefix())
	}
	sigs, stop := catchSignals()
	defer stop()
	ctx, end := endBySignal(sigs)
	err = player.Play(ctx)
	end()
	tidy, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	closed := player.Close(tidy)
	switch {
	case signalOf(ctx) != nil:
		return signalOf(ctx)
	case err != nil:
		return fail(exitFailed, "the scene could not be played: %v", err)
	case closed != nil:
		fmt.Fprintf(e.stderr, "holdfast: could not delete the keys below %s: %v; they end by their TTL\n", player.Prefix(), closed)
	}
	return c.verdict(e, out, player)
}

// verdict prints what was measured and ends with 1 unless every claim held.
func (c *demoCmd) verdict(e *env, out io.Writer, player *demo.Player) error {
	claims := player.Claims()
	fmt.Fprintln(out)
	if err := demo.Table(out, player.Acts); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := demo.PushTable(out, player.Pushes); err != nil {
		return err
	}
	fmt.Fprintln(out)
	held := true
	for _, claim := range claims {
		mark := "held  "
		if !claim.Held {
			mark, held = "FAILED", false
		}
		fmt.Fprintf(out, "%s  %s\n", mark, claim.Text)
	}
	if c.JSON {
		if err := writeJSON(e.stdout, map[string]any{"acts": player.Acts, "pushes": player.Pushes, "claims": claims, "held": held, "version": jsonVersion}); err != nil {
			return err
		}
	}
	if !held {
		return fail(exitNo, "not every claim held; please report this with the output above")
	}
	return nil
}

// drawing returns how progress is shown on w.
func drawing(w io.Writer) demo.Drawing {
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			return demo.Terminal
		}
	}
	return demo.Lines
}
