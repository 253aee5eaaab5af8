// Package quorumtest has only tests: those of a quorum of real Redis servers that fail. They are among
// the suites of faults. Package quorum's own run in virtual time.
package quorumtest
