package live

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lab/ledger"
)

// openLedgers begins to record what each Redis does. Only leases of Holdfast are compared with it. A server that the lab
// does not own is not recorded: MONITOR would slow it down, and its clock may be another machine's.
func (r *run) openLedgers() error {
	if !r.p.holdfast() {
		return nil
	}
	for _, s := range r.stores {
		if s.server == nil || !s.redis() {
			return nil
		}
		opts, err := redis.ParseURL(s.url)
		if err != nil {
			return err
		}
		l := ledger.New(r.prefix, r.epoch)
		w, err := l.Watch(opts)
		if err != nil {
			return err
		}
		r.ledgers, r.recording = append(r.ledgers, l), append(r.recording, w)
	}
	return nil
}

// closeLedgers ends the records, after all that the servers have done until now. It does nothing if they have ended.
func (r *run) closeLedgers(ctx context.Context) (err error) {
	for _, w := range r.recording {
		err = errors.Join(err, w.Close(ctx))
	}
	r.recording = nil
	return err
}
