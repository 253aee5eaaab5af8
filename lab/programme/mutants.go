package programme

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/mutant"
)

// Mutant is what came of a planted bug.
type Mutant struct {
	Name  string        `json:"name"`
	Found bool          `json:"found"`
	By    []string      `json:"by,omitempty"` // checks
	Seed  uint64        `json:"seed,omitempty"`
	Took  time.Duration `json:"took"`
	Holds string        `json:"holds,omitempty"` // why it cannot be found, if that is known
	Rare  bool          `json:"rare,omitempty"`  // with Holds: it may be found all the same
	Error string        `json:"error,omitempty"`
}

// Bad says what is not as it should be; empty: nothing.
func (m Mutant) Bad() string {
	switch {
	case m.Error != "":
		return fmt.Sprintf("the lab failed: mutant %q: %s", m.Name, m.Error)
	case m.Found && m.Holds != "" && !m.Rare:
		return fmt.Sprintf("the lab failed: mutant %q is listed as one that survives, and was found by %v", m.Name, m.By)
	case !m.Found && m.Holds == "":
		return fmt.Sprintf("the lab failed: mutant %q was not found; seen by %v", m.Name, m.By)
	}
	return ""
}

// mutants plants all bugs, one after the other.
func (p Plan) mutants(ctx context.Context) []Mutant {
	most := p.MutantFor
	if most == 0 {
		most = time.Minute
	}
	var out []Mutant
	all := mutant.All()
	for i, m := range all {
		if ctx.Err() != nil {
			break
		}
		row := Mutant{Name: m.Name, Holds: m.Holds, Rare: m.Rare}
		v, err := mutant.Hunt(ctx, p.Mutants, m, most)
		row.By, row.Seed, row.Took, row.Found = slices.Clone(v.By), v.Seed, v.Took, v.Found()
		if err != nil {
			row.Error = err.Error()
		}
		out = append(out, row)
		text := "survives, as is known"
		if len(row.By) > 0 || m.Holds == "" {
			text = fmt.Sprintf("%s after %v", strings.Join(row.By, ", "), row.Took.Round(100*time.Millisecond))
		}
		p.report(Event{Part: "mutants", Done: i + 1, Of: len(all), Text: m.Name + ": " + text, Bad: row.Bad()})
	}
	return out
}
