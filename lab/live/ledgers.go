package live

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lab/ledger"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// hasLedger reports whether what the stores of a subject do is recorded. Of several servers of ZooKeeper none has a log of
// exactly what was committed.
func hasLedger(subject string) bool {
	s, ok := stores.Of(subject)
	return ok && s.Name != "zookeeper-three"
}

// openLedgers begins to record what each store does. Only leases of Holdfast are compared with it. A server that the lab
// does not own is not recorded: that would slow it down, and its clock may be another machine's.
func (r *run) openLedgers(ctx context.Context) error {
	if !hasLedger(r.p.Subject) {
		return nil
	}
	var all []*store
	for _, s := range r.stores {
		if s.server == nil {
			return nil
		}
		if s.replicated() == nil {
			all = append(all, s)
			continue
		}
		for _, node := range s.servers() {
			all = append(all, &store{url: node})
		}
	}
	for _, s := range all {
		l := ledger.NewWithClock(r.prefix, r.epoch, func() ledger.Clock { return s.clock() })
		recording, err := r.record(ctx, l, s)
		if err != nil {
			return err
		}
		r.ledgers, r.recording = append(r.ledgers, l), append(r.recording, recording)
	}
	return nil
}

// record begins to record what a store does.
func (r *run) record(ctx context.Context, l *ledger.Ledger, s *store) (ledger.Recording, error) {
	if log, ok := s.server.(stores.Logged); ok {
		return l.RecordZooKeeper(log.LogDir()), nil
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "postgres":
		return l.RecordPostgres(ctx, s.url)
	case "mysql":
		return l.RecordMariaDB(ctx, u.Host, u.User.Username(), strings.TrimPrefix(u.Path, "/"))
	case "sqlite":
		return l.RecordSQLite(ctx, u.Path, r.start)
	case "etcd":
		return l.RecordEtcd(ctx, strings.Split(u.Host, ","))
	}
	opts, err := redis.ParseURL(s.url)
	if err != nil {
		return nil, err
	}
	return l.Watch(opts)
}

// closeLedgers ends the records, after all that the stores have done until now. It does nothing if they have ended.
func (r *run) closeLedgers(ctx context.Context) (err error) {
	for _, w := range r.recording {
		err = errors.Join(err, w.Close(ctx))
	}
	r.recording = nil
	return err
}
