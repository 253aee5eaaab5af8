// Package live runs random programs with faults on real processes and real stores: one,
// three or five redis-servers, or one of the other stores of package stores, and worker
// processes, which are killed and stopped while they work.
//
// A Program is drawn from a seed: the workers, the resources that they lock, and the faults
// with their times. A Runner runs it: it starts the servers and the workers, injects the
// faults with the Injector of package fault, collects one history of all processes, and
// checks it with packages check and model. After the faults, every live worker acquires
// every resource once more; that must succeed, and nothing may be left in the stores.
//
// # Repeating
//
// The program of a seed is always the same; the schedule of real processes is not. A failure
// is saved with its history in a replay file, and Again runs its program until it fails
// again. A run in which a fault was never hit shows nothing and is counted separately.
//
// # One clock
//
// All instants are of the machine's monotonic clock, which the processes share. A worker
// reports each operation when it happens, so the history has all operations of a killed
// worker up to its death.
//
// # Checks
//
// Exclusion by trust windows, notice in time, tokens, the fence and the protected values are
// checked under all faults. Two promises end when a store loses its data, as GUARANTEES.md
// states: a single Redis no longer excludes others from the leases that it lost, which the
// checks recognise by tokens below the store's clock of that moment; and marks of slots are
// lost. A store that is rolled back to an older copy of its data loses the leases and marks
// that are not in the copy, and of the others the renewals; see rollBack. A node of a quorum
// that has lost data stays down for longer than the longest lease, as operators must ensure, and
// exclusion continues to hold.
//
// In a quarter of the programs the wall clocks of the Redis servers run 1 to 1.8 % fast or slow,
// within the margin of the trust windows.
//
// # Controls
//
// A campaign also plays what is known to break: see Control. It shows nothing if one of them holds.
//
// Where marks follow the wall clocks of clients, as on etcd, those of the workers stay within
// a minute of each other, as GUARANTEES.md requires.
//
// Wall clocks of workers are stepped only on Linux on amd64; elsewhere those programs pause
// the worker instead.
package live
