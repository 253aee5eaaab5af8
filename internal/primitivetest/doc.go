// Package primitivetest holds a model and random programs for each primitive of
// Holdfast. A program runs several clients of one store, each behind a network of
// its own that delays, loses and cuts, and compares what they are told with the
// model: who may hold at once, in which order, with which tokens, how often
// something may succeed, and what is left at the end.
//
// The same programs run on a Stage in virtual time, on the memory engine in a
// bubble of testing/synctest, and on one in real time, on a real Redis, where they
// are played faster. The package is for tests only.
package primitivetest
