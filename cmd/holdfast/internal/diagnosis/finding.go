// Package diagnosis has what `holdfast doctor` finds: findings about places, each with a status and a
// remedy, and the report of all. The checks are in package doctor for Redis, and in package
// doctorstores for other stores.
package diagnosis

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
