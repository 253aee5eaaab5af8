package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/internal/sqltable"
)

const (
	sentAtOnce  = 64   // messages in one statement
	mostPending = 4096 // messages that wait to be sent; the rest is lost, and waiters poll
	sweptOnce   = 64   // of so many changes, one has old rows deleted
	sweptRows   = 64   // so many rows are looked at
	sendTimeout = 2 * time.Second
)

// look reads the messages above a number to some recipients.
func (s *tableStore) look(ctx context.Context, above int64, to []string) (found []sqltable.StoredMessage, highest int64, err error) {
	query := `SELECT MAX(seq), NULL, NULL FROM holdfast1_wake`
	if len(to) > 0 {
		query = fmt.Sprintf(`%s UNION ALL (SELECT seq, address, body FROM holdfast1_wake WHERE address IN (%s) AND seq > %d)`, query, list(to), above)
	}
	err = s.connected(ctx, func(c *sql.Conn) error {
		found, highest = nil, 0
		rows, err := c.QueryContext(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var seq sql.NullInt64
			var address, body []byte
			if err := rows.Scan(&seq, &address, &body); err != nil {
				return err
			}
			if address == nil {
				highest = seq.Int64
				continue
			}
			found = append(found, sqltable.StoredMessage{Number: seq.Int64, To: string(address), Body: body})
		}
		return rows.Err()
	})
	return found, highest, err
}

// sender sends messages after the changes that they are of, by a goroutine that runs while there
// are any: a change does not wait for its messages.
type sender struct {
	store *tableStore

	mu       sync.Mutex
	messages []cas.Message
	from     []byte // nil: no documents are to be swept
	running  bool
}

func (o *sender) send(messages []cas.Message) {
	if len(messages) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = append(o.messages, messages[:min(len(messages), mostPending-len(o.messages))]...)
	o.start()
}

// sweep has old documents deleted, among some that follow a key.
func (o *sender) sweep(key []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from = key
	o.start()
}

// start starts the goroutine. The caller has the lock.
func (o *sender) start() {
	if !o.running {
		o.running = true
		go o.run()
	}
}

func (o *sender) run() {
	for {
		o.mu.Lock()
		messages, from := o.messages, o.from
		o.messages, o.from = nil, nil
		o.running = len(messages) > 0 || from != nil
		o.mu.Unlock()
		if len(messages) == 0 && from == nil {
			return
		}
		// Failures are not reported: messages are hints, and old rows can wait.
		for part := range parts(messages) {
			_ = o.do(func(ctx context.Context, c *sql.Conn) error { return insert(ctx, c, part) })
		}
		if from != nil {
			_ = o.do(func(ctx context.Context, c *sql.Conn) error { return sweepDocuments(ctx, c, from) })
			_ = o.do(sweepMessages)
		}
	}
}

func (o *sender) do(f func(ctx context.Context, c *sql.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	return o.store.connected(ctx, func(c *sql.Conn) error { return f(ctx, c) })
}

func parts(messages []cas.Message) func(yield func([]cas.Message) bool) {
	return func(yield func([]cas.Message) bool) {
		for ; len(messages) > 0; messages = messages[min(len(messages), sentAtOnce):] {
			if !yield(messages[:min(len(messages), sentAtOnce)]) {
				return
			}
		}
	}
}

func insert(ctx context.Context, c *sql.Conn, messages []cas.Message) error {
	rows := make([]string, len(messages))
	for i, m := range messages {
		rows[i] = fmt.Sprintf(`(%s, %s, %s)`, clock, literal(sqltable.Recipient(m.To)), literal(m.Body))
	}
	_, err := c.ExecContext(ctx, `INSERT INTO holdfast1_wake (at, address, body) VALUES `+strings.Join(rows, ", "))
	return err
}

// sweepDocuments deletes documents that need not be kept any longer, among those that follow a key,
// or at the start of the table if there are none.
func sweepDocuments(ctx context.Context, c *sql.Conn, from []byte) error {
	keys, err := column(ctx, c, fmt.Sprintf(`SELECT k FROM (SELECT k, until FROM holdfast1_document WHERE k > %s ORDER BY k LIMIT %d) AS some WHERE until < %s`,
		literal(from), sweptRows, clock))
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		keys, err = column(ctx, c, fmt.Sprintf(`SELECT k FROM (SELECT k, until FROM holdfast1_document ORDER BY k LIMIT %d) AS some WHERE until < %s`, sweptRows, clock))
		if err != nil || len(keys) == 0 {
			return err
		}
	}
	_, err = c.ExecContext(ctx, fmt.Sprintf(`DELETE FROM holdfast1_document WHERE k IN (%s) AND until < %s`, list(keys), clock))
	return err
}

// sweepMessages deletes old messages. The last one always stays, since its number is that from
// which others go on.
func sweepMessages(ctx context.Context, c *sql.Conn) error {
	var last sql.NullInt64
	err := c.QueryRowContext(ctx, fmt.Sprintf(`SELECT MAX(seq) FROM (SELECT seq, at FROM holdfast1_wake ORDER BY seq LIMIT %d) AS some
		WHERE at < %s - %d AND seq < (SELECT MAX(seq) FROM holdfast1_wake)`, 64*sweptRows, clock, sqltable.Life.Microseconds())).Scan(&last)
	if err != nil || !last.Valid {
		return err
	}
	_, err = c.ExecContext(ctx, fmt.Sprintf(`DELETE FROM holdfast1_wake WHERE seq <= %d ORDER BY seq LIMIT %d`, last.Int64, 64*sweptRows))
	return err
}
