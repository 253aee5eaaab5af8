// Package virtual runs random schedules of work and faults in the virtual time
// of testing/synctest: hours of pauses, partitions and crashes in milliseconds.
//
// A Program is generated from a seed: some processes with a Holdfast client each, the
// locks they use, for how long, and the faults. Play runs it in a bubble and checks the
// recorded history with packages check and model. The clients are real. Each process has
// a link to each store, which delays, loses and repeats messages and cuts connections.
//
// # Clocks and pauses
//
// All processes and stores share the bubble's clock. A store with a faster or slower
// clock has scaled TTLs, which is equivalent, because only durations cross the link. A
// paused process is cut off from everything visible to others: until it continues, its
// requests are not sent, replies and wake-ups are not received, and its workload stops.
// In a build with the points of package pausepoint, a pause can also begin at a point of
// the client, and goroutines of a paused process, timers among them, wait at each point.
// Steps of a process's own clock are not simulated; the lab steps those of real processes.
//
// # Repeating
//
// The program of a seed is always the same. The order of goroutines that are ready at the
// same instant and the client's random pauses are not, so a seed that failed once may need
// several runs to fail again: Replay repeats them.
package virtual
