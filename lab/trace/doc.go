// Package trace checks that the code takes the steps of the TLA+ modules in spec.
//
// A Recorder stands before the engines of a run of lab/virtual. It records each call that reaches a store, with its
// instant, its answer, and what the store shows after it: one Trace for each resource. Traces are written as a module
// that QueueTrace.tla and TokenTrace.tla read, and TLC plays them. A Divergence changes one event of a trace into one that
// a store must never show; such a trace has to be rejected at that event.
package trace
