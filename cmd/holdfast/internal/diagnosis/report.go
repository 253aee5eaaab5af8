package diagnosis

import "slices"

// Report is all findings about a store.
type Report struct {
	Store    string    `json:"store"`
	Prefix   string    `json:"prefix"`
	Findings []Finding `json:"findings"`
}

// Add adds findings.
func (r *Report) Add(f ...Finding) { r.Findings = append(r.Findings, f...) }

// Count returns how many findings have a status.
func (r *Report) Count(s FindingStatus) int {
	n := 0
	for _, f := range r.Findings {
		if f.Status == s {
			n++
		}
	}
	return n
}

// Worst returns the most severe failure, or None. Unreachable is worse than Denied, and
// Denied is worse than Misconfig.
func (r *Report) Worst() Fault {
	order := []Fault{None, Misconfig, Denied, Unreachable}
	worst := None
	for _, f := range r.Findings {
		if f.Status == Fail && slices.Index(order, f.Fault) > slices.Index(order, worst) {
			worst = f.Fault
		}
	}
	return worst
}

// Merged returns the findings grouped by check, in the order in which the checks first
// appear. Equal findings of several nodes become one.
func (r *Report) Merged() []Finding {
	var out []Finding
next:
	for _, f := range r.Findings {
		for i, o := range out {
			if o.Check == f.Check && o.Status == f.Status && o.Found == f.Found && o.Remedy == f.Remedy {
				out[i].Node += ", " + f.Node
				continue next
			}
		}
		out = append(out, f)
	}
	var checks []string
	for _, f := range out {
		checks = append(checks, f.Check)
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return slices.Index(checks, a.Check) - slices.Index(checks, b.Check) })
	return out
}
