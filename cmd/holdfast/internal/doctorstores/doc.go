// Package doctorstores examines stores other than Redis before they are used for locks, each by the
// client that its engine takes: whether it can be reached; whether it keeps what it has
// acknowledged, over crashes and failovers; whether the schema, the user's rights and the wake-ups are as the
// engine needs them; how a lease is acquired, handed off and released there; and which TTL is sensible.
//
// What a store does not disclose is Unknown, not a failure. Nothing is changed, except that a lease and
// a semaphore of random names are acquired and released: the store forgets them as it does any name that is
// not used, after ten minutes.
package doctorstores
