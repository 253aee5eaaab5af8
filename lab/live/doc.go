// Package live plays random fault histories with real processes on real stores:
// a redis-server, or three or five of them, and workers that are processes of
// their own, which are killed and stopped while they work.
//
// A Program is drawn from a seed: what is locked and for how long, by how many
// workers, and which faults begin when. A Runner runs it: it has servers of its
// own, starts the workers, injects the schedule by the Injector of package fault,
// collects one history of all processes, and judges it by package check and
// package model. When the faults are over, every live worker acquires
// everything once more: it must succeed, and then leave nothing behind.
//
// # What repeats
//
// The program of a seed is always the same; what real processes do with it is
// not. A failure is kept with its history in a replay file, and Again plays its
// program until it fails again. A run in which a fault was never hit shows
// nothing: it is counted apart.
//
// # One clock
//
// All instants are of the machine's monotonic clock, which its processes share. A
// worker writes down each operation when it happens, so what a killed one did is
// known up to its death.
//
// # What is judged
//
// Exclusion by trust windows, notice in time, tokens, the fence, and what is
// behind it, under all faults. Two promises end with the data of a store, as
// GUARANTEES.md says. Leases that a single Redis forgot are not excluded from then
// on; they are recognised by their tokens, which are below the clock of that moment. And
// marks of slots are gone. A node of a quorum that lost its data stays away for
// longer than the longest lease, as its operator must do; then exclusion holds
// on.
//
// The wall clock of a worker is stepped where the system lets the lab do it, which
// is Linux on amd64; elsewhere those programs stop the worker instead.
package live
