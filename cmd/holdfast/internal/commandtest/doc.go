// Package commandtest has only tests: those of the command on each store and topology, of which package command's own
// need one, on servers that fail, and as it is released. They are among the suites of faults.
package commandtest
