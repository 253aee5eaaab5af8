package live

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/lab/stores"
)

// Runner has stores and runs one program at a time on them.
type Runner struct {
	own map[string][]stores.Server // by the names of their kinds
	// others are redis:// URLs of stores that the Runner does not own: it empties and stops nothing
	// there, writes below a prefix of its own, and removes that.
	others []string
	// Command is the program holdfast. What its log --json prints is compared with the history in a Redis; "": it is not.
	Command string
}

// NewRunner returns a Runner that starts servers as programs need them. If they are not installed,
// the first run fails.
func NewRunner() *Runner { return &Runner{} }

// Close ends the servers that the Runner has started.
func (l *Runner) Close() {
	for _, servers := range l.own {
		for _, s := range servers {
			s.Stop()
		}
	}
	l.own = nil
}

// stores makes the stores of a program ready.
func (l *Runner) stores(ctx context.Context, p Program) ([]*store, error) {
	var out []*store
	if l.others != nil {
		if len(l.others) != p.Nodes {
			return nil, fmt.Errorf("the program needs %d stores, and there are %d", p.Nodes, len(l.others))
		}
		for _, u := range l.others {
			out = append(out, &store{url: u})
		}
		return out, nil
	}
	if len(p.Rates) > 0 {
		return rated(ctx, p)
	}
	kind := p.store()
	if l.own == nil {
		l.own = map[string][]stores.Server{}
	}
	for len(l.own[kind.Name]) < p.Nodes {
		s, err := kind.Launch()
		if err != nil {
			return nil, err
		}
		l.own[kind.Name] = append(l.own[kind.Name], s)
	}
	for _, s := range l.own[kind.Name][:p.Nodes] {
		fresh := &store{url: s.URL(), server: s}
		if err := fresh.reset(ctx); err != nil {
			return nil, err
		}
		if g := fresh.replicated(); g != nil {
			if err := g.Aim(append(p.Resources[0].names(), p.Resources[0].Name)[0]); err != nil {
				return nil, err
			}
		}
		out = append(out, fresh)
	}
	return out, nil
}
