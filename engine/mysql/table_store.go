package mysql

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/internal/sqltable"
)

// tableStore keeps documents in a table.
type tableStore struct {
	db        *sql.DB
	slots     chan struct{}
	inspected atomic.Bool
	limited   atomic.Bool // the server limits the waits of statements; see brief
	listeners *sqltable.Listeners
	sender    sender
}

var (
	_ cas.TimedStore = (*tableStore)(nil)
	_ cas.PacedStore = (*tableStore)(nil)
)

func newStore(db *sql.DB) *tableStore {
	s := &tableStore{db: db, slots: make(chan struct{}, atOnce)}
	s.listeners = sqltable.NewListeners(s.look)
	s.sender.store = s
	return s
}

// Now implements cas.TimedStore.
func (s *tableStore) Now(ctx context.Context) (time.Time, error) {
	var us int64
	err := s.session(ctx, func(c *sql.Conn) error {
		var noChanges bool
		err := c.QueryRowContext(ctx, `SELECT `+clock+`, `+takesNoChanges).Scan(&us, &noChanges)
		if err == nil && noChanges {
			err = errReadOnly
		}
		return err
	})
	return instant(us), err
}

// Read implements cas.DocumentStore, in one statement.
func (s *tableStore) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	if len(reads) == 0 {
		return nil, ctx.Err()
	}
	docs := make([]cas.Doc, len(reads))
	err := s.session(ctx, func(c *sql.Conn) error { return read(ctx, c, reads, docs) })
	if err != nil {
		return nil, err
	}
	return docs, nil
}

// read fills docs with one statement, whose result has a row for each read.
func read(ctx context.Context, c *sql.Conn, reads []cas.Read, docs []cas.Doc) error {
	var q strings.Builder
	q.WriteString(`SELECT c.i, ` + clock + `, ` + takesNoChanges + `, d.rev, IF(d.rev = c.rev, NULL, d.value) FROM (`)
	for i, r := range reads {
		if i > 0 {
			q.WriteString(` UNION ALL `)
		}
		fmt.Fprintf(&q, `SELECT %d AS i, %s AS k, %d AS rev`, i, literal(sqltable.Key(r.Key)), int64(r.Rev))
	}
	q.WriteString(`) AS c LEFT JOIN holdfast1_document AS d ON d.k = c.k`)
	rows, err := c.QueryContext(ctx, q.String())
	if err != nil {
		return err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var i int
		var at int64
		var noChanges bool
		var rev sql.NullInt64
		var value []byte
		if err := rows.Scan(&i, &at, &noChanges, &rev, &value); err != nil {
			return err
		}
		if noChanges {
			return errReadOnly
		}
		doc := cas.Doc{Rev: uint64(rev.Int64), Value: value, At: instant(at)}
		doc.Unchanged = rev.Valid && doc.Rev == reads[i].Rev
		docs[i] = doc
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if n != len(reads) {
		return fmt.Errorf("mysql: %d rows for %d documents", n, len(reads))
	}
	return nil
}

// Swap implements cas.DocumentStore. Each change is a statement, all on one connection: the pool may be in use by others, and
// each wait for a connection of it may be long. A row that a foreign transaction keeps locked is waited for briefly. All rows
// that are locked then are found by one statement, and the other documents are changed without them.
func (s *tableStore) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	outcomes := make([]cas.Outcome, len(changes))
	done := make([]bool, len(changes)) // or locked
	err := s.session(ctx, func(c *sql.Conn) error {
		return s.briefly(ctx, c, len(changes), func() error {
			for i, change := range changes {
				if done[i] {
					continue
				}
				err := again(ctx, func() (err error) {
					outcomes[i], err = swap(ctx, c, change)
					return err
				})
				if number(err) == lockWaitTimeout {
					outcomes[i].Locked = true
					err = findLocked(ctx, c, changes, done, outcomes)
				}
				if err != nil {
					return err
				}
				done[i] = true
				if outcomes[i].Swapped {
					s.changed(change)
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// findLocked notes which of the changes that are not done have a row that is there and locked.
func findLocked(ctx context.Context, c *sql.Conn, changes []cas.Change, done []bool, outcomes []cas.Outcome) error {
	var keys [][]byte
	for i, change := range changes {
		if !done[i] {
			keys = append(keys, sqltable.Key(change.Key))
		}
	}
	if len(keys) == 1 {
		return nil
	}
	free, err := column(ctx, c, fmt.Sprintf(`SELECT k FROM holdfast1_document WHERE k IN (%s) FOR UPDATE SKIP LOCKED`, list(keys)))
	if number(err) == syntaxError {
		return nil // an old server: each is waited for
	}
	if err != nil {
		return err
	}
	unlocked := make(map[string]bool)
	for _, k := range free {
		unlocked[string(k)] = true
	}
	for i, change := range changes {
		if !done[i] && change.Rev != 0 && !unlocked[string(sqltable.Key(change.Key))] {
			outcomes[i].Locked, done[i] = true, true
		}
	}
	return nil
}

// changed sends the messages of a change that was made, and from time to time has old rows deleted.
func (s *tableStore) changed(c cas.Change) {
	here, elsewhere := s.listeners.Split(c.Messages)
	s.sender.send(elsewhere)
	s.listeners.Deliver(here)
	if rand.N(sweptOnce) == 0 {
		s.sender.sweep(sqltable.Key(c.Key))
	}
}

// swap makes a change. The server's time comes with the reply as the last insert ID.
//
// The new revision of a document is a random number. It is never used again even if the server
// loses what it committed last, as in a failover to an asynchronous replica.
func swap(ctx context.Context, c *sql.Conn, change cas.Change) (cas.Outcome, error) {
	key := literal(sqltable.Key(change.Key))
	rev := 1 + rand.Int64N(1<<62)
	until := fmt.Sprintf(`LAST_INSERT_ID(%s) + %d`, clock, change.Keep.Microseconds())
	var statement string
	if change.Rev == 0 {
		statement = fmt.Sprintf(`INSERT INTO holdfast1_document (k, rev, until, value) VALUES (%s, %d, %s, %s)`, key, rev, until, literal(change.Value))
	} else {
		statement = fmt.Sprintf(`UPDATE holdfast1_document SET rev = %d, until = %s, value = %s WHERE k = %s AND rev = %d`,
			rev, until, literal(change.Value), key, int64(change.Rev))
	}
	r, err := c.ExecContext(ctx, brief+statement)
	if err != nil && number(err) != dupEntry {
		return cas.Outcome{}, err
	}
	if err == nil {
		made, err := r.RowsAffected()
		if err != nil {
			return cas.Outcome{}, err
		}
		if made > 0 {
			at, err := changedAt(ctx, c, r)
			return cas.Outcome{Swapped: true, Doc: cas.Doc{Rev: uint64(rev), At: instant(at)}}, err
		}
	}
	docs := make([]cas.Doc, 1)
	err = read(ctx, c, []cas.Read{{Key: change.Key}}, docs)
	return cas.Outcome{Doc: docs[0]}, err
}

// leastInstant is below every time of the clock, and above every number of a row.
const leastInstant = 1e15

// changedAt returns the server's time that came with the result of a change, in microseconds. If the table has a trigger,
// as an audit or a change of its schema adds one, the statement of the trigger takes its place: then the time is read after
// the change, which makes leases seem shorter and never longer.
func changedAt(ctx context.Context, c *sql.Conn, r sql.Result) (us int64, err error) {
	if us, err = r.LastInsertId(); err != nil || us >= leastInstant {
		return us, err
	}
	err = c.QueryRowContext(ctx, `SELECT `+clock).Scan(&us)
	return us, err
}

// keysAtOnce is how many keys Keys reads in one statement.
const keysAtOnce = 256

// Keys implements cas.DocumentStore.
func (s *tableStore) Keys(ctx context.Context, space cas.Space, prefix string) iter.Seq2[cas.Key, error] {
	return func(yield func(cas.Key, error) bool) {
		from, to := sqltable.Bounds(space, prefix)
		for {
			var keys [][]byte
			page, cancel := context.WithTimeout(ctx, cas.DefaultTimeout)
			err := s.session(page, func(c *sql.Conn) (err error) {
				keys, err = column(page, c, fmt.Sprintf(`SELECT k FROM holdfast1_document WHERE k >= %s AND k < %s ORDER BY k LIMIT %d`,
					literal(from), literal(to), keysAtOnce))
				return err
			})
			cancel()
			if err != nil {
				yield(cas.Key{}, err)
				return
			}
			for _, k := range keys {
				name, err := sqltable.Name(k)
				if !yield(cas.Key{Space: space, Prefix: prefix, Name: name}, err) || err != nil {
					return
				}
			}
			if len(keys) < keysAtOnce {
				return
			}
			from = append(bytes.Clone(keys[len(keys)-1]), 0) // the least key above
		}
	}
}

// column returns the values of a query's only column.
func column(ctx context.Context, c *sql.Conn, query string) ([][]byte, error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all [][]byte
	for rows.Next() {
		var v []byte
		if err := rows.Scan(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// Listen implements cas.DocumentStore.
func (s *tableStore) Listen(ctx context.Context, to cas.Address, deliver func([]byte), resync func()) (io.Closer, error) {
	return s.listeners.Listen(ctx, to, deliver, resync)
}

// Waits implements cas.PacedStore.
func (s *tableStore) Waits(client cas.Address, holderID string, ahead int) {
	s.listeners.Waits(client, holderID, ahead)
}
