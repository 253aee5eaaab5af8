package doctorstores

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

const (
	// notified is how many are sent, and notificationLimit how long each may take.
	notified          = 5
	notificationLimit = 2 * time.Second
)

// notifications sends itself notifications on a connection of its own.
func (p *postgreSQL) notifications(ctx context.Context) {
	c := p.check("notifications")
	conn, err := pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig)
	if c.Unanswered(err) {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// A pooler makes up a process ID for its clients.
	var pid uint32
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&pid)
	pooled := err == nil && pid != conn.PgConn().PID()
	channel := "holdfast1_doctor_" + strings.ToLower(rand.Text())
	var trips diagnosis.RoundTrips
	if err == nil {
		_, err = conn.Exec(ctx, "LISTEN "+channel, pgx.QueryExecModeExec)
	}
	for range notified {
		if err != nil {
			break
		}
		sent := time.Now()
		if err = p.exec(ctx, "NOTIFY "+channel); err != nil {
			break
		}
		wait, cancel := context.WithTimeout(ctx, notificationLimit)
		_, err = conn.WaitForNotification(wait)
		cancel()
		if err == nil {
			trips = append(trips, time.Since(sent))
		} else if ctx.Err() == nil {
			p.deaf(pooled)
			return
		}
	}
	if c.Unanswered(err) {
		return
	}
	through := ""
	if pooled {
		through = ", through a pooler"
	}
	c.With("notify_median_ms", diagnosis.Millis(trips.Median())).With("pooler", pooled).
		OK("a NOTIFY arrives%s: median %s, max %s", through, diagnosis.Span(trips.Median()), diagnosis.Span(trips.Longest()))
	p.queue(ctx)
}

// deaf reports that notifications do not arrive.
func (p *postgreSQL) deaf(pooled bool) {
	what := "a NOTIFY does not arrive"
	if pooled {
		what = "a NOTIFY does not arrive through the pooler, as PgBouncer in transaction mode"
	}
	p.check("notifications").With("pooler", pooled).Warn("connect to the server itself, or in session mode; in Go, postgres.WithListenPool leads past the pooler",
		"%s: waiters look each second, and a hand-off takes as long", what)
}

// queue checks that the server's queue of notifications is not filled by a session that does not read.
func (p *postgreSQL) queue(ctx context.Context) {
	var usage float64
	if err := p.row(ctx, "SELECT pg_notification_queue_usage()", &usage); p.check("notifications").Unanswered(err) {
		return
	}
	p.checkQueue(usage)
}

func (p *postgreSQL) checkQueue(usage float64) {
	if usage > nearlyFull/2 {
		p.check("notifications").Warn("end the transaction of the session that listens (the server's log names it)",
			"the server's queue of notifications is %.0f %% full: when it is full, releases send no wake-ups", 100*usage)
	}
}
