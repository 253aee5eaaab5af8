package holdfast

import "time"

// A FallbackStartHook is called when the store has not responded for
// [FallbackTimeout]: from now on locks of this client with a fallback fall back
// at once.
type FallbackStartHook interface{ FallbackStart(e FallbackStartEvent) }

// A FallbackStartEvent is the moment from which locks fall back at once.
type FallbackStartEvent struct {
	Silent time.Duration // since the first request without an answer
	Err    error         // of the latest request
}

// A FallbackEndHook is called when the store responds again, or the client has
// closed, after a FallbackStart.
type FallbackEndHook interface{ FallbackEnd(e FallbackEndEvent) }

// A FallbackEndEvent is the moment from which locks use the store again.
type FallbackEndEvent struct {
	Silent time.Duration // from the first request without an answer until now
}
