// Package peer implements the interface of package subject with other Go libraries,
// through their public API. It is a separate package so that a program without them does
// not link their code.
package peer

import "github.com/holdfast-go/holdfast/lab/subject"

// All returns the libraries, in the order of the tables.
func All() []subject.Subject { return []subject.Subject{Redsync(), Redislock(), Rueidislock()} }
