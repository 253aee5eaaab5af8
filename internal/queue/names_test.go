package queue_test

import "github.com/holdfast-go/holdfast/internal/queue"

// params are those of the real engines.
var params = queue.Params{
	WaiterLife:  3 * queue.Second,
	ClaimWindow: 3 * queue.Second,
	Retention:   600 * queue.Second,
	BallotAhead: 24 * 3600 * queue.Second,
}

var statusNames = map[queue.Status]string{
	queue.Granted: "granted", queue.Queued: "queued", queue.Busy: "busy", queue.Outbid: "outbid",
	queue.Ended: "ended", queue.Mismatch: "mismatch", queue.TooHeavy: "too heavy", queue.TooFar: "too far",
	queue.Done: "done", queue.NotHeld: "not held", queue.Marked: "marked",
}

var causeNames = map[queue.Cause]string{
	queue.Expired: "expired", queue.Taken: "taken", queue.Deleted: "deleted", queue.Broken: "broken",
	queue.Released: "released",
}
