package doctorstores

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

const (
	// manyDead is the number of dead rows above which there is a warning, if they are also more than ten times the live ones.
	manyDead = 20_000
	// fewHOT is the share of HOT updates below which there is a warning, and manyUpdates the number from which it counts.
	fewHOT, manyUpdates = 0.5, 1000
)

// tableState is what the server counts of a table.
type tableState struct {
	live, dead, updates, hot, size int64
	options                        []string // fillfactor=50
	oldest                         time.Duration
}

// bloat checks that the table stays small.
func (p *postgreSQL) bloat(ctx context.Context) {
	var s tableState
	var oldest float64
	err := p.row(ctx, `SELECT coalesce(t.n_live_tup, 0), coalesce(t.n_dead_tup, 0), coalesce(t.n_tup_upd, 0), coalesce(t.n_tup_hot_upd, 0), pg_total_relation_size(c.oid), coalesce(c.reloptions, '{}'),
		coalesce((SELECT extract(epoch FROM max(clock_timestamp() - a.xact_start))::float8 FROM pg_stat_activity a WHERE a.backend_xmin IS NOT NULL AND a.pid <> pg_backend_pid()), 0)
		FROM pg_class c LEFT JOIN pg_stat_user_tables t ON t.relid = c.oid WHERE c.oid = to_regclass('`+pgTable+`')`,
		&s.live, &s.dead, &s.updates, &s.hot, &s.size, &s.options, &oldest)
	if p.check("bloat").Unanswered(err) {
		return
	}
	s.oldest = time.Duration(oldest * float64(time.Second))
	p.checkBloat(s)
}

func (p *postgreSQL) checkBloat(s tableState) {
	c := p.check("bloat")
	c.WarnIf(p.settings["autovacuum"] == "off" || slices.Contains(s.options, "autovacuum_enabled=false") || slices.Contains(s.options, "autovacuum_enabled=off"), "set autovacuum = on, for the server and the table",
		"autovacuum is off: the table %s only grows", pgTable)
	c.WarnIf(!slices.Contains(s.options, "fillfactor=50"), "ALTER TABLE "+pgTable+" SET (fillfactor = 50), and VACUUM FULL it when nothing is locked",
		"the table has no fillfactor of 50 (%s): updates write the index too, and leave more behind", orDefaults(s.options))
	hot := fmt.Sprintf("%d of %d updates were HOT", s.hot, s.updates)
	c.With("hot", s.hot).With("updates", s.updates).WarnIf(s.updates >= manyUpdates && float64(s.hot) < fewHOT*float64(s.updates), "look for an index beside the primary key, and for long transactions",
		"%s", hot)
	c.With("dead_rows", s.dead).With("live_rows", s.live).WarnIf(s.dead > manyDead && s.dead > 10*s.live, "look for long transactions (pg_stat_activity), replication slots and prepared transactions that keep old rows, and check that autovacuum runs",
		"%d dead rows beside %d live ones", s.dead, s.live)
	c.With("open_s", s.oldest.Seconds()).WarnIf(s.oldest > longOpen, "end it (pg_stat_activity), and set idle_in_transaction_session_timeout",
		"a transaction has been open for %s: no row that has died since can be removed, of any table", diagnosis.Span(s.oldest))
	c.With("live_rows", s.live).With("dead_rows", s.dead).With("size_bytes", s.size).Otherwise("%s; %d live and %d dead rows; %s", diagnosis.Size(s.size), s.live, s.dead, hot)
}

func orDefaults(options []string) string {
	if len(options) == 0 {
		return "no options"
	}
	return strings.Join(options, ", ")
}
