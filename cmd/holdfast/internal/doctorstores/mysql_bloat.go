package doctorstores

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

const (
	// longHistory is how many old versions of rows may wait for their removal without a warning.
	longHistory = 1_000_000
	// manyMessages is the number of messages above which there is a warning: each is kept for 10 s.
	manyMessages = 100_000
)

// undoState is what keeps old versions of rows.
type undoState struct {
	history, messages, size int64
	oldest                  time.Duration // the longest open transaction
}

// bloat checks that the tables and the undo log stay small.
func (m *mySQL) bloat(ctx context.Context) {
	s := undoState{history: number(m.status, "innodb_history_list_length")}
	err := m.db.QueryRowContext(ctx, `SELECT COALESCE(SUM(CASE WHEN table_name = 'holdfast1_wake' THEN table_rows END), 0), COALESCE(SUM(data_length + index_length), 0)
		FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('holdfast1_document', 'holdfast1_wake')`).Scan(&s.messages, &s.size)
	if m.check("bloat").Unanswered(err) {
		return
	}
	s.oldest = m.oldest(ctx)
	m.checkBloat(s)
}

// oldest returns the age of the oldest transaction, or 0 if the user may not see it. The server shows its start in its own time zone,
// whatever that of the session is.
func (m *mySQL) oldest(ctx context.Context) time.Duration {
	var seconds int64
	err := m.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))), 0) FROM information_schema.innodb_trx").Scan(&seconds)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func (m *mySQL) checkBloat(s undoState) {
	c := m.check("bloat")
	c.With("history", s.history).WarnIf(s.history > longHistory, "look for long transactions (information_schema.innodb_trx)",
		"%d old versions of rows wait for their removal (history list length)", s.history)
	c.With("open_s", s.oldest.Seconds()).WarnIf(s.oldest > longOpen, "end it (information_schema.innodb_trx)",
		"a transaction has been open for %s: no row that has changed since can be cleaned up, of any table", diagnosis.Span(s.oldest))
	c.With("messages", s.messages).WarnIf(s.messages > manyMessages, "DELETE FROM holdfast1_wake WHERE seq < (the highest one), and look for what stops the clients from doing so",
		"about %d messages in holdfast1_wake, which clients delete after 10 s", s.messages)
	c.With("size_bytes", s.size).With("messages", s.messages).Otherwise("%s; about %d messages", diagnosis.Size(s.size), s.messages)
}
