// Package peer puts other Go libraries behind the interface of package subject,
// through their public API. It stands apart so that a program that plays the lab
// without them, as the command holdfast does, is spared their code.
package peer

import "github.com/holdfast-go/holdfast/lab/subject"

// All returns the libraries, in the order of the tables.
func All() []subject.Subject { return []subject.Subject{Redsync(), Redislock(), Rueidislock()} }
