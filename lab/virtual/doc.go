// Package virtual plays random schedules of work and faults in the virtual time
// of testing/synctest: hours of pauses, partitions and deaths in milliseconds.
//
// A Program is drawn from a seed: some processes with a Holdfast client each,
// what they lock and for how long, and what goes wrong meanwhile. Play runs it
// in a bubble and judges the recorded history by package check and package
// model. The client side is the real one; between it and the stores lies a link
// for each process and store, which delays, loses, repeats and cuts.
//
// # What time does here
//
// All processes and stores share the bubble's clock. A store whose clock runs
// faster or slower than the processes' is one whose TTLs are scaled, which is the
// same thing, since nothing but durations crosses the link. A process that is
// paused is cut off from everything that others can see: its requests do not
// leave, answers and wake-ups do not come in, and its workload stands still, all
// until it goes on. What this cannot show is a timer inside the client that fires
// late by itself, and steps of a process's own clock; the lab's real processes
// are stopped for that, and theirs are stepped.
//
// # Repeating
//
// The program of a seed is always the same. The order of goroutines that are
// ready in the same instant and the client's own random pauses are not, so a
// seed that fails once may need some runs to fail again: Replay makes them.
package virtual
