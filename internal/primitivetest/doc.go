// Package primitivetest has a model and random programs for each primitive of
// Holdfast. A program runs several clients of one store, each behind a network of
// its own that delays and loses messages and refuses connections. It compares the results
// with the model: how many may hold at once, in which order, with which tokens, how often
// a call may succeed, and that nothing is left at the end.
//
// The same programs run in an Environment of virtual time, on engines inside a bubble of
// testing/synctest, and in one of real time, on a real Redis, with shorter times. The
// package is for tests only.
package primitivetest
