// Package pausepoint lets the lab pause a client between two of its statements.
//
// A point is a call of Reach in the source of the client or of engine/quorum. The source in
// this repository has none: package mutant adds them to a build of the lab, by the go
// command's flag -overlay, and has their list. See docs/decisions/0149-pause-points-by-overlay.md.
//
// What happens at a point is up to the function that Watch was given for the engine of the
// client: package virtual pauses a simulated process, and a worker of package live stops
// itself. A point is at no place where a mutex is held, since in the virtual time of
// testing/synctest no time passes while a goroutine waits for one.
package pausepoint

import "sync"

// names are the points of this build; the overlay fills the list.
var names = []string{}

// watchers are the functions of Watch, by engine.
var watchers = sync.Map{}

// Names returns the names of the points of this build. It is empty without the overlay.
func Names() []string { return names }

// Watch calls a function at each point that a client of an engine reaches, or the engine
// itself, until end is called. The function runs in the goroutine that has reached the
// point, which continues when it returns. The engine must be comparable, as a pointer is.
func Watch(engine any, reached func(point string)) (end func()) {
	watchers.Store(engine, reached)
	return func() { watchers.Delete(engine) }
}

// Reach reports that a client of an engine has reached a point. It returns true, so that a
// point can be a part of a condition.
func Reach(engine any, point string) bool {
	if reached, watched := watchers.Load(engine); watched {
		reached.(func(string))(point)
	}
	return true
}
