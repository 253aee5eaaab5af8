// Package lab is the torture lab: it breaks every classic Redis lock on demand,
// and tries to break Holdfast.
//
// A subject is a lock behind one small interface; a scenario runs a workload on
// it under faults and records a history; checks judge the history and know
// nothing of the faults. The folders are named after these words.
package lab
