package doctor

import (
	"fmt"
	"slices"
)

// FindingStatus is how good a finding is.
type FindingStatus string

// The states, from good to bad.
const (
	OK      FindingStatus = "OK"
	Unknown FindingStatus = "UNKNOWN" // the server does not show it
	Warn    FindingStatus = "WARN"    // it works, and could be better or may stop working
	Fail    FindingStatus = "FAIL"    // Holdfast does not work, or does not keep what it promises
)

// Fault is what kind of failure a finding is.
type Fault string

// The faults; None if it is no failure.
const (
	None        Fault = ""
	Misconfig   Fault = "configuration"
	Denied      Fault = "denied"
	Unreachable Fault = "unreachable"
)

// Finding is the result of one check.
type Finding struct {
	Check  string         `json:"check"`
	Node   string         `json:"node"` // a server, or what a URL names, or all
	Status FindingStatus  `json:"status"`
	Fault  Fault          `json:"fault,omitempty"`
	Found  string         `json:"found"`
	Remedy string         `json:"remedy,omitempty"`
	Values map[string]any `json:"values,omitempty"` // measured; the names carry the units
}

// with adds a value for programs.
func (f Finding) with(name string, value any) Finding {
	if f.Values == nil {
		f.Values = map[string]any{}
	}
	f.Values[name] = value
	return f
}

// place is where something was found; it makes findings.
type place string

// everywhere is the place of findings about the whole store.
const everywhere place = "all"

func (p place) ok(check, format string, args ...any) Finding {
	return Finding{Check: check, Node: string(p), Status: OK, Found: fmt.Sprintf(format, args...)}
}

func (p place) unknown(check, remedy, format string, args ...any) Finding {
	return Finding{Check: check, Node: string(p), Status: Unknown, Remedy: remedy, Found: fmt.Sprintf(format, args...)}
}

func (p place) warn(check, remedy, format string, args ...any) Finding {
	return Finding{Check: check, Node: string(p), Status: Warn, Remedy: remedy, Found: fmt.Sprintf(format, args...)}
}

func (p place) fail(check, remedy, format string, args ...any) Finding {
	return Finding{Check: check, Node: string(p), Status: Fail, Fault: Misconfig, Remedy: remedy, Found: fmt.Sprintf(format, args...)}
}

// as changes the kind of failure.
func (f Finding) as(fault Fault) Finding {
	f.Fault = fault
	return f
}

// Report is all findings about a store.
type Report struct {
	Store    string    `json:"store"`
	Prefix   string    `json:"prefix"`
	Findings []Finding `json:"findings"`
}

func (r *Report) add(f ...Finding) { r.Findings = append(r.Findings, f...) }

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
