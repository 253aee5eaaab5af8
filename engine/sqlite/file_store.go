package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/internal/sqltable"
)

// What PRAGMA synchronous is set to. In WAL mode a process that is killed loses nothing in either.
const (
	untilCrash  = 1 // NORMAL: a power loss may undo the latest transactions
	untilRemove = 2 // FULL: a transaction is on the disk when it ends
)

// fileStore keeps documents in a table.
type fileStore struct {
	db        *sql.DB
	clock     hostClock
	writing   chan struct{} // SQLite has one writer
	reading   chan struct{}
	restamped atomic.Bool // what other boots of the host have left has been looked at
	listeners *sqltable.Listeners
}

var (
	_ cas.PacedStore   = (*fileStore)(nil)
	_ cas.LaggingStore = (*fileStore)(nil)
)

// ReadsMayLag implements cas.LaggingStore. The age of a document counts from before its commit, and a process may be stopped
// in between. A Read that begins there returns the document before it: a waiter whose poll was answered so must not count
// a grant from that poll, since others count it from an earlier instant.
func (s *fileStore) ReadsMayLag() {}

func newStore(db *sql.DB) *fileStore {
	s := &fileStore{db: db, clock: newHostClock(), writing: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
	s.listeners = sqltable.NewListeners(s.look)
	return s
}

const selectDocument = `SELECT rev, boot, made, CASE WHEN rev = ? THEN NULL ELSE value END FROM holdfast1_document WHERE key = ?`

// document returns the document of a key. Its value is left out if the revision is known.
func (s *fileStore) document(c *lentConnection, key []byte, known uint64) (doc cas.Doc, err error) {
	var rev, boot, made int64
	var value []byte
	err = c.conn.QueryRowContext(c.ctx, selectDocument, int64(known), key).Scan(&rev, &boot, &made, &value)
	if errors.Is(err, sql.ErrNoRows) {
		return cas.Doc{}, nil
	}
	doc = cas.Doc{Rev: uint64(rev), Age: s.clock.now().since(boot, made)}
	if doc.Unchanged = doc.Rev == known; !doc.Unchanged {
		doc.Value = value
	}
	return doc, err
}

// Read implements cas.DocumentStore.
func (s *fileStore) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	var docs []cas.Doc
	err := s.do(ctx, s.reading, func(c *lentConnection) error {
		all := make([]cas.Doc, len(reads))
		for i, r := range reads {
			var err error
			if all[i], err = s.document(c, sqltable.Key(r.Key), r.Rev); err != nil {
				return err
			}
		}
		docs = all
		return nil
	})
	if err != nil {
		return nil, err
	}
	return docs, nil
}

// Swap implements cas.DocumentStore. It is one transaction, messages included.
func (s *fileStore) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	var outcomes []cas.Outcome
	var here []cas.Message
	err := s.do(ctx, s.writing, func(c *lentConnection) error {
		restore, err := c.set("synchronous", durability(changes))
		if err != nil {
			return err
		}
		defer restore()
		if err := s.restamp(c); err != nil {
			return err
		}
		var all []cas.Outcome
		var near []cas.Message
		err = c.transaction(func() (err error) {
			all, near, err = s.swap(c, changes)
			return err
		})
		if err != nil {
			return err
		}
		outcomes, here = all, near
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.listeners.Deliver(here)
	return outcomes, nil
}

// durability returns the value of PRAGMA synchronous for changes. A power loss ends every holder and
// every waiter, so that a lease need not survive it, but a mark must.
func durability(changes []cas.Change) int {
	for _, c := range changes {
		if c.Marks {
			return untilRemove
		}
	}
	return untilCrash
}

// swap makes changes in a transaction, and returns the messages that are for this process.
func (s *fileStore) swap(c *lentConnection, changes []cas.Change) (outcomes []cas.Outcome, here []cas.Message, err error) {
	outcomes = make([]cas.Outcome, len(changes))
	var elsewhere []cas.Message
	now := s.clock.now()
	for i, change := range changes {
		if outcomes[i], err = s.change(c, change, now); err != nil {
			return nil, nil, err
		}
		if outcomes[i].Swapped && len(change.Messages) > 0 {
			near, far := s.listeners.Split(change.Messages)
			here, elsewhere = append(here, near...), append(elsewhere, far...)
		}
	}
	if err := c.send(elsewhere, now); err != nil {
		return nil, nil, err
	}
	return outcomes, here, c.sweep(now)
}

// change makes one change.
func (s *fileStore) change(c *lentConnection, change cas.Change, now moment) (cas.Outcome, error) {
	key, rev := sqltable.Key(change.Key), int64(change.Rev)+1
	var made int64
	var err error
	if change.Rev == 0 {
		rev = 1 + rand.Int64N(1<<62) // no earlier document under this key had it
		made, err = c.change(`INSERT INTO holdfast1_document (key, rev, boot, made, until, value) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING`,
			key, rev, now.boot, now.us, now.after(change.Keep), change.Value)
	} else {
		made, err = c.change(`UPDATE holdfast1_document SET rev = ?, boot = ?, made = ?, until = ?, value = ? WHERE key = ? AND rev = ?`,
			rev, now.boot, now.us, now.after(change.Keep), change.Value, key, int64(change.Rev))
	}
	if err != nil {
		return cas.Outcome{}, err
	}
	if made == 1 {
		return cas.Outcome{Swapped: true, Doc: cas.Doc{Rev: uint64(rev)}}, nil
	}
	doc, err := s.document(c, key, 0)
	return cas.Outcome{Doc: doc}, err
}

// Rows that are deleted are few at a time, at random, so that no transaction takes long.
const (
	sweptOnce   = 32 // of so many transactions, one deletes old documents
	sweptRows   = 64 // so many rows are looked at
	sentAtOnce  = 64 // messages in one statement
	unsweptOnce = 8  // of so many transactions with messages, one deletes old ones
)

// sweep deletes documents that need not be kept any longer, among a few.
func (c *lentConnection) sweep(now moment) error {
	if rand.N(sweptOnce) > 0 {
		return nil
	}
	return c.exec(`DELETE FROM holdfast1_document WHERE boot = ? AND until < ? AND rowid IN (
		SELECT rowid FROM holdfast1_document
		WHERE rowid >= (SELECT abs(random()) % (max(rowid) + 1) FROM holdfast1_document) ORDER BY rowid LIMIT ?)`,
		now.boot, now.us, sweptRows)
}

// send adds messages to the table, and deletes some that are old. The last one always stays, since
// its number is that from which others go on.
func (c *lentConnection) send(messages []cas.Message, now moment) error {
	if len(messages) == 0 {
		return nil
	}
	for from := 0; from < len(messages); from += sentAtOnce {
		part := messages[from:min(from+sentAtOnce, len(messages))]
		args := make([]any, 0, 3*len(part))
		for _, m := range part {
			args = append(args, now.us, sqltable.Recipient(m.To), m.Body)
		}
		err := c.exec(`INSERT INTO holdfast1_wake (at, address, body) VALUES (?, ?, ?)`+strings.Repeat(`, (?, ?, ?)`, len(part)-1), args...)
		if err != nil {
			return err
		}
	}
	if rand.N(unsweptOnce) > 0 && len(messages) < sentAtOnce {
		return nil
	}
	return c.exec(`DELETE FROM holdfast1_wake WHERE at NOT BETWEEN ? AND ? AND seq IN (
		SELECT seq FROM holdfast1_wake WHERE seq < (SELECT max(seq) FROM holdfast1_wake) ORDER BY seq LIMIT ?)`,
		now.us-sqltable.Life.Microseconds(), now.us, sweptRows+len(messages))
}

// restamp makes the documents that earlier boots of the host have left count as made now, once a boot:
// their instants are of another clock, and it is not known for how long the host was down.
func (s *fileStore) restamp(c *lentConnection) error {
	now := s.clock.now()
	if now.boot == 0 || s.restamped.Load() {
		return nil
	}
	var boot int64
	err := c.conn.QueryRowContext(c.ctx, `SELECT boot FROM holdfast1_host`).Scan(&boot)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err != nil || boot != now.boot {
		err = c.transaction(func() error {
			err := c.exec(`UPDATE holdfast1_document SET boot = ?, made = ?, until = until - made + ? WHERE boot <> ?`,
				now.boot, now.us, now.us, now.boot)
			if err != nil {
				return err
			}
			return c.exec(`INSERT INTO holdfast1_host (id, boot) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET boot = excluded.boot`, now.boot)
		})
		if err != nil {
			return err
		}
	}
	s.restamped.Store(true)
	return nil
}

// keysAtOnce is how many keys Keys reads in one statement.
const keysAtOnce = 256

// Keys implements cas.DocumentStore.
func (s *fileStore) Keys(ctx context.Context, space cas.Space, prefix string) iter.Seq2[cas.Key, error] {
	return func(yield func(cas.Key, error) bool) {
		from, to := sqltable.Bounds(space, prefix)
		for {
			keys, err := s.keys(ctx, from, to)
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

func (s *fileStore) keys(ctx context.Context, from, to []byte) ([][]byte, error) {
	var keys [][]byte
	err := s.do(ctx, s.reading, func(c *lentConnection) error {
		var all [][]byte
		rows, err := c.conn.QueryContext(c.ctx, `SELECT key FROM holdfast1_document WHERE key >= ? AND key < ? ORDER BY key LIMIT ?`, from, to, keysAtOnce)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var k []byte
			if err := rows.Scan(&k); err != nil {
				return err
			}
			all = append(all, k)
		}
		keys = all
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// Listen implements cas.DocumentStore.
func (s *fileStore) Listen(ctx context.Context, to cas.Address, deliver func([]byte), resync func()) (io.Closer, error) {
	return s.listeners.Listen(ctx, to, deliver, resync)
}

// Waits implements cas.PacedStore.
func (s *fileStore) Waits(client cas.Address, holderID string, ahead int) {
	s.listeners.Waits(client, holderID, ahead)
}

// look reads the messages above a number, to whomever they are: numbers are given in the order of commits.
func (s *fileStore) look(ctx context.Context, above int64, _ []string) ([]sqltable.StoredMessage, int64, error) {
	var found []sqltable.StoredMessage
	var highest int64
	err := s.do(ctx, s.reading, func(c *lentConnection) error {
		var all []sqltable.StoredMessage
		var last sql.NullInt64
		if err := c.conn.QueryRowContext(c.ctx, `SELECT max(seq) FROM holdfast1_wake`).Scan(&last); err != nil {
			return err
		}
		if last.Int64 <= above {
			found, highest = nil, last.Int64
			return nil
		}
		rows, err := c.conn.QueryContext(c.ctx, `SELECT seq, address, body FROM holdfast1_wake WHERE seq > ? ORDER BY seq`, above)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r sqltable.StoredMessage
			if err := rows.Scan(&r.Number, &r.To, &r.Body); err != nil {
				return err
			}
			all = append(all, r)
		}
		found, highest = all, last.Int64
		return rows.Err()
	})
	if err != nil {
		return nil, 0, err
	}
	return found, highest, nil
}
