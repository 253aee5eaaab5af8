// Package lab is the torture lab: it breaks every classic Redis lock on demand, and
// tries to break Holdfast.
//
// A subject is a lock behind a small interface. A scenario runs a workload on it under
// faults and records a history. Checks find violations in the history and do not depend
// on the faults. The folders have these names.
package lab
