package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// callTimeout bounds a call of the server whose ctx does not end.
const callTimeout = cas.DefaultTimeout

// listedAtOnce is how many keys Keys reads in one call.
const listedAtOnce = 500

// documents is the cas.DocumentStore on a table.
type documents struct {
	options
	pool          *pgxpool.Pool
	connections   *connections
	notifications *notifications

	readDoc, update, insert, unlocked, keys, now, tell, tellIf, tidy, setBrief *statement

	swaps    atomic.Uint64
	tidying  atomic.Bool
	tidyFrom cas.Key // guarded by tidying
}

var _ cas.TimedStore = (*documents)(nil)

func newDocuments(pool *pgxpool.Pool, opts []Option) *documents {
	o := collect(opts)
	s := &documents{options: o, pool: pool}
	const isKey = "space = $1 AND prefix = $2 AND name = $3"
	const keep = " * interval '1 microsecond'"
	key := []uint32{pgtype.QCharOID, pgtype.ByteaOID, pgtype.ByteaOID}
	with := func(more ...uint32) []uint32 { return slices.Concat(key, more) }
	table := func(sql string) string { return strings.ReplaceAll(sql, "DOC", o.table()) }

	// The value is left out if the caller has this revision. The time is read after the
	// document, in a statement of its own after a change: a clock_timestamp() in the statement
	// that waits for a row's lock may be read before the wait.
	s.readDoc = newStatement(table(`SELECT d.rev, CASE WHEN d.rev <> $4 THEN d.value END, clock_timestamp(), pg_is_in_recovery()
		FROM (SELECT) AS one LEFT JOIN DOC AS d ON d.space = $1 AND d.prefix = $2 AND d.name = $3`), with(pgtype.Int8OID)...)
	s.update = newStatement(table(`UPDATE DOC SET rev = $5, value = $6, keep_until = clock_timestamp() + $7`+keep+` WHERE `+isKey+` AND rev = $4`),
		with(pgtype.Int8OID, pgtype.Int8OID, pgtype.ByteaOID, pgtype.Float8OID)...)
	s.insert = newStatement(table(`INSERT INTO DOC (space, prefix, name, rev, value, keep_until)
		VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6`+keep+`) ON CONFLICT (space, prefix, name) DO NOTHING`),
		with(pgtype.Int8OID, pgtype.ByteaOID, pgtype.Float8OID)...)
	s.unlocked = newStatement(table(`SELECT 1 FROM DOC WHERE `+isKey+` FOR UPDATE SKIP LOCKED`), key...)
	s.setBrief = newStatement(setBriefSQL)
	s.keys = newStatement(table(`SELECT name FROM DOC WHERE space = $1 AND prefix = $2 AND name >= $3 ORDER BY name LIMIT $4`),
		with(pgtype.Int8OID)...)
	s.now = newStatement(`SELECT clock_timestamp(), pg_is_in_recovery()`)
	const tell = `SELECT count(pg_notify(channel, body)) FROM unnest(%s) AS message (channel, body)`
	s.tell = newStatement(fmt.Sprintf(tell, "$1, $2"), pgtype.TextArrayOID, pgtype.TextArrayOID)
	s.tellIf = newStatement(table(fmt.Sprintf(tell, "$5, $6")+` WHERE EXISTS (SELECT FROM DOC WHERE `+isKey+` AND rev = $4)`),
		with(pgtype.Int8OID, pgtype.TextArrayOID, pgtype.TextArrayOID)...)
	s.tidy = newStatement(table(tidySQL), with(pgtype.Int8OID)...)
	if pool != nil {
		s.connections = newConnections(pool.Config(), []*statement{s.readDoc, s.update, s.insert, s.unlocked, s.keys, s.now, s.tell, s.tellIf, s.tidy, s.setBrief})
	}
	s.notifications = newNotifications(s)
	return s
}

// Check makes holdfast.New fail.
func (s *documents) Check() error {
	if s.pool == nil {
		return errNoPool
	}
	return nil
}

// Read implements cas.DocumentStore.
func (s *documents) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	t := transaction{}
	for _, r := range reads {
		t.queries = append(t.queries, query{s.readDoc, append(keyArgs(r.Key), int8Arg(int64(r.Rev)))})
	}
	results, err := s.run(ctx, &t)
	if err != nil {
		return nil, err
	}
	docs := make([]cas.Doc, len(reads))
	for i, r := range reads {
		if docs[i], err = s.doc(results[i], r.Rev); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// Swap implements cas.DocumentStore.
//
// The new revision of a document is a random number of 63 bits. It is never used again
// even if the server loses what it committed last, in which case a sequence may return
// a number twice. And whether the change was made is then visible in the document, so that
// the transaction can run twice.
//
// A row that a foreign transaction keeps locked is waited for briefly. All rows that are locked then are found by one
// statement, and the other documents are changed without them.
func (s *documents) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	outcomes := make([]cas.Outcome, len(changes))
	rest := inOrder(changes)
	for len(rest) > 0 {
		err := s.swap(ctx, changes, rest, outcomes)
		locked, ok := errors.AsType[lockedError](err)
		if err == nil {
			break
		}
		if !ok || locked.query >= len(rest) {
			return nil, err
		}
		outcomes[rest[locked.query]].Locked = true
		if len(rest) > 1 {
			if err := s.findLocked(ctx, changes, rest, outcomes); err != nil {
				return nil, err
			}
		}
		rest = slices.DeleteFunc(rest, func(i int) bool { return outcomes[i].Locked })
	}
	s.tidyNowAndThen(len(changes))
	return outcomes, nil
}

// findLocked sets the outcomes of the changes whose rows are there and locked.
func (s *documents) findLocked(ctx context.Context, changes []cas.Change, of []int, outcomes []cas.Outcome) error {
	t := transaction{relaxed: true}
	for _, i := range of {
		t.queries = append(t.queries, query{s.unlocked, keyArgs(changes[i].Key)})
	}
	results, err := s.run(ctx, &t)
	if err != nil {
		return err
	}
	for n, i := range of {
		outcomes[i].Locked = outcomes[i].Locked || changes[i].Rev != 0 && len(results[n].Rows) == 0
	}
	return nil
}

// swap makes changes in one transaction, and sets their outcomes. The documents are changed in a given order, that of their
// keys, each locked by its change, so two calls cannot wait for each other.
func (s *documents) swap(ctx context.Context, changes []cas.Change, order []int, outcomes []cas.Outcome) error {
	t := transaction{relaxed: true, brief: true}
	revs := make([]int64, len(changes))
	var told []int // the changes that have messages
	for _, i := range order {
		c := &changes[i]
		revs[i] = 1 + rand.Int64N(math.MaxInt64)
		q := query{s.insert, append(keyArgs(c.Key), int8Arg(revs[i]), c.Value, keepArg(c.Keep))}
		if c.Rev != 0 {
			q = query{s.update, append(keyArgs(c.Key), int8Arg(int64(c.Rev)), int8Arg(revs[i]), c.Value, keepArg(c.Keep))}
		}
		t.queries = append(t.queries, q)
		t.relaxed = t.relaxed && (c.Relaxed || s.relaxed && !c.Marks)
		if len(c.Messages) > 0 {
			told = append(told, i)
			t.after = append(t.after, query{s.tellIf, append(append(keyArgs(c.Key), int8Arg(revs[i])), messageArgs(c.Messages)...)})
		}
	}
	for _, i := range order {
		t.queries = append(t.queries, query{s.readDoc, append(keyArgs(changes[i].Key), int8Arg(revs[i]))})
	}
	known := make(chan struct{})
	defer close(known)
	t.then = func(results []*pgconn.Result) {
		<-known
		for n, i := range told {
			if outcomes[i].Swapped && binary.BigEndian.Uint64(results[n].Rows[0][0]) == 0 {
				// Another change came first: notifications in the round trip of a change are
				// sent only if its document is still there.
				_ = s.notify(messageArgs(changes[i].Messages)) // they may be lost
			}
		}
	}
	results, err := s.run(ctx, &t)
	if err != nil {
		return err
	}
	for n, i := range order {
		doc, err := s.doc(results[len(order)+n], uint64(revs[i]))
		if err != nil {
			return err
		}
		if t.lost != nil && !doc.Unchanged {
			return t.lost
		}
		outcomes[i] = cas.Outcome{Swapped: doc.Unchanged, Doc: doc}
	}
	return nil
}

// inOrder returns the indexes of changes in the order of their keys.
func inOrder(changes []cas.Change) []int {
	order := make([]int, len(changes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := changes[i].Key, changes[j].Key
		return cmp.Or(cmp.Compare(a.Space, b.Space), strings.Compare(a.Prefix, b.Prefix), strings.Compare(a.Name, b.Name))
	})
	return order
}

// Keys implements cas.DocumentStore.
func (s *documents) Keys(ctx context.Context, space cas.Space, prefix string) iter.Seq2[cas.Key, error] {
	return func(yield func(cas.Key, error) bool) {
		next := cas.Key{Space: space, Prefix: prefix}
		for {
			results, err := s.runInTime(ctx, &transaction{queries: []query{{s.keys, append(keyArgs(next), int8Arg(listedAtOnce))}, {s.now, nil}}})
			if err == nil {
				_, err = s.clock(results[1].Rows[0])
			}
			if err != nil {
				yield(cas.Key{}, err)
				return
			}
			for _, row := range results[0].Rows {
				next.Name = string(row[0])
				if !yield(next, nil) {
					return
				}
			}
			if len(results[0].Rows) < listedAtOnce {
				return
			}
			next.Name += "\x00"
		}
	}
}

// runInTime is run for a ctx that may never end.
func (s *documents) runInTime(ctx context.Context, t *transaction) ([]*pgconn.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.run(ctx, t)
}

// Now implements cas.TimedStore.
func (s *documents) Now(ctx context.Context) (time.Time, error) {
	results, err := s.run(ctx, &transaction{queries: []query{{s.now, nil}}})
	if err != nil {
		return time.Time{}, err
	}
	return s.clock(results[0].Rows[0])
}

// clock returns the time of a server, unless it is a standby.
func (s *documents) clock(row [][]byte) (time.Time, error) {
	if isTrue(row[1]) {
		s.connections.closeIdle() // the next connections may go to the primary
		return time.Time{}, errStandby
	}
	return timeOf(row[0])
}

// doc returns the document in the result of readDoc for a revision.
func (s *documents) doc(result *pgconn.Result, have uint64) (cas.Doc, error) {
	row := result.Rows[0]
	at, err := s.clock(row[2:])
	if err != nil {
		return cas.Doc{}, err
	}
	d := cas.Doc{At: at}
	if row[0] != nil {
		d.Rev, d.Value = binary.BigEndian.Uint64(row[0]), row[1]
		d.Unchanged = d.Rev == have
	}
	return d, nil
}

// The parameters and results of statements are in PostgreSQL's binary form.

func keyArgs(k cas.Key) [][]byte {
	args := make([][]byte, 0, 7)
	return append(args, []byte{byte(k.Space)}, []byte(k.Prefix), []byte(k.Name))
}

func int8Arg(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func keepArg(d time.Duration) []byte {
	return binary.BigEndian.AppendUint64(nil, math.Float64bits(float64(d.Microseconds())))
}

// textsArg is an array.
func textsArg(texts []string) []byte {
	b := binary.BigEndian.AppendUint32(nil, 1) // dimensions
	b = binary.BigEndian.AppendUint32(b, 0)    // no element is NULL
	b = binary.BigEndian.AppendUint32(b, pgtype.TextOID)
	b = binary.BigEndian.AppendUint32(b, uint32(len(texts)))
	b = binary.BigEndian.AppendUint32(b, 1) // the first index
	for _, text := range texts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return b
}

func isTrue(b []byte) bool { return len(b) == 1 && b[0] == 1 }

// timeOf returns a timestamptz: microseconds since the start of 2000.
func timeOf(b []byte) (time.Time, error) {
	if len(b) != 8 {
		return time.Time{}, fmt.Errorf("postgres: a time of %d bytes", len(b))
	}
	const epoch = 946684800_000_000 // of PostgreSQL, in microseconds of Unix
	return time.UnixMicro(int64(binary.BigEndian.Uint64(b)) + epoch), nil
}
