package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// query is a statement with its parameters in binary form.
type query struct {
	*statement
	args [][]byte
}

// transaction is what one round trip does. The statements of queries are one transaction of the
// server, READ COMMITTED. Those of after are another one, which is not durable, begins
// when the first one has ended, committed or not, and which the caller does not wait for.
type transaction struct {
	queries []query
	relaxed bool // without waiting for the disk
	brief   bool // without waiting long for a row: that is a lockedError
	after   []query
	// then gets the results of after, unless they got lost.
	then func([]*pgconn.Result)
	// lost is the error of a run that may have taken effect before the present one.
	lost error
}

// setRelaxed makes the commit of the present transaction not wait for the disk.
const setRelaxed = "SELECT set_config('synchronous_commit', 'off', true)"

// setBriefSQL bounds the wait of the present transaction for each row. Among the changes of engines a row is locked for
// as long as a commit takes.
const setBriefSQL = "SELECT set_config('lock_timeout', '500ms', true)"

// A lockedError is the error of a brief transaction of which a query has waited too long for a row.
type lockedError struct {
	query int // its index
	error
}

func (e lockedError) Unwrap() error { return e.error }

// retryPause bounds the pause before a transaction runs again that the server aborted.
const retryPause = 20 * time.Millisecond

// run returns the results of the queries of a transaction. It runs again if the server has
// aborted it, and once if it was sent on an idle connection that turned out to be lost: the
// server may have been restarted.
func (s *documents) run(ctx context.Context, t *transaction) ([]*pgconn.Result, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c, err := s.connections.take(ctx)
		reused := false
		var results []*pgconn.Result
		if err == nil {
			reused = c.reused
			results, err = s.attempt(ctx, c, t)
		}
		if err == nil {
			return results, nil
		}
		if leaveServer(err) {
			s.connections.closeIdle()
		}
		switch {
		case ctx.Err() != nil:
			return nil, errors.Join(context.Cause(ctx), failure(err, s.options))
		case t.brief && code(err) == lockTimeout:
			if t.lost != nil {
				return nil, t.lost
			}
			return nil, lockedError{len(results), err}
		case aborted(err):
			time.Sleep(rand.N(retryPause))
		case unprepared(err):
			s.connections.withoutPrepared()
		case reused && t.lost == nil && leaveServer(err):
			t.lost = err
		default:
			return nil, failure(err, s.options)
		}
	}
}

// attempt runs a transaction on a connection, and puts the connection back. With an error it returns the results of the
// queries before the one that failed.
func (s *documents) attempt(ctx context.Context, c *connection, t *transaction) ([]*pgconn.Result, error) {
	own, cancel, stop := ctx, func() {}, func() bool { return true }
	if len(t.after) > 0 { // what is after outlives the call
		own, cancel = context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		stop = context.AfterFunc(ctx, cancel)
	}
	end := func() {
		cancel()
		s.connections.put(c)
	}
	p := c.pgx.PgConn().StartPipeline(own)
	skip := s.send(c, p, t.queries, t.relaxed, t.brief)
	p.SendPipelineSync()
	skipAfter := 0
	if len(t.after) > 0 {
		skipAfter = s.send(c, p, t.after, true, false)
		p.SendPipelineSync()
	}
	err := p.Flush()
	var got []*pgconn.Result
	if err == nil {
		got, err = results(p, skip)
	}
	stop()
	if len(t.after) == 0 || err != nil {
		_ = p.Close() // it is closed, or the connection is
		end()
		return got, err
	}
	go func() {
		after, err := results(p, skipAfter)
		_ = p.Close()
		end()
		if err == nil {
			t.then(after)
		}
	}()
	return got, nil
}

// send writes queries to a pipeline. The results of the first statements are to be skipped.
func (s *documents) send(c *connection, p *pgconn.Pipeline, queries []query, relaxed, brief bool) (skip int) {
	if c.begin {
		p.SendQueryParams("BEGIN ISOLATION LEVEL READ COMMITTED", nil, nil, nil, nil)
		skip++
	}
	if relaxed {
		p.SendQueryParams(setRelaxed, nil, nil, nil, nil)
		skip++
	}
	if brief {
		queries = append([]query{{s.setBrief, nil}}, queries...)
		skip++
	}
	binary := []int16{1}
	for _, q := range queries {
		if c.prepared {
			p.SendQueryPrepared(q.name, q.args, binary, binary)
		} else {
			p.SendQueryParams(q.sql, q.args, q.types, binary, binary)
		}
	}
	if c.begin {
		p.SendQueryParams("COMMIT", nil, nil, nil, nil)
	}
	return skip
}

var errPipeline = errors.New("postgres: fewer results than statements")

// results reads the results of a pipeline up to the end of a transaction, and returns those after the first skip ones;
// with an error those before the statement that failed.
func results(p *pgconn.Pipeline, skip int) ([]*pgconn.Result, error) {
	var all []*pgconn.Result
	var failed error
	for {
		r, err := p.GetResults()
		if rows, ok := r.(*pgconn.ResultReader); ok && err == nil && skip > 0 {
			skip--
			_, err = rows.Close()
		} else if ok && err == nil {
			result := rows.Read()
			if err = result.Err; err == nil {
				all = append(all, result)
			}
		}
		_, answered := errors.AsType[*pgconn.PgError](err)
		switch {
		case err != nil && !answered:
			if failed != nil {
				err = failed // it names the cause
			}
			return nil, err
		case err != nil:
			if failed == nil {
				failed = err
			}
		case r == nil:
			return nil, errors.Join(failed, errPipeline)
		default:
			if _, ok := r.(*pgconn.PipelineSync); ok {
				return all, failed
			}
		}
	}
}
