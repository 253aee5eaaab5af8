// Package primitivetest holds a model and random programs for each primitive of
// Holdfast. A program runs several clients of one store, each behind a network of
// its own that delays, loses and cuts, and compares the answers with the model: how
// many may hold at once, in which order, with which tokens, how often something may
// succeed, and what is left at the end.
//
// The same programs run in an Environment of virtual time, on the memory engine in a
// bubble of testing/synctest, and in one of real time, on a real Redis, where they
// run faster. The package is for tests only.
package primitivetest
