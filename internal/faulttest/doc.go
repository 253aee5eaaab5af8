// Package faulttest proves the promises of Holdfast on a real Redis, under the
// faults that production has: killed and paused processes, lost replies, a
// server that hangs, dies or forgets. It holds tests only.
//
// The processes are the test binary itself, started again in the role of a
// worker; see worker_test.go.
package faulttest
