package doctorstores

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// hostLimit bounds the questions to one of several hosts.
const hostLimit = 2 * time.Second

// pgHost is one of the hosts of a URL.
type pgHost struct {
	diagnosis.Place
	config  *pgx.ConnConfig
	trouble error
	standby bool
	started time.Time // when its server was started, which tells servers apart; zero: it is not known
	clock   diagnosis.ClockReading
}

// hosts compares the hosts of a URL that has several: after a failover leases end by another one's clock.
func (p *postgreSQL) hosts(ctx context.Context) {
	config := p.pool.Config().ConnConfig
	type address struct {
		host string
		port uint16
	}
	seen := map[address]*pgHost{}
	var all []*pgHost
	hosts := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, f := range hosts {
		if h := seen[address{f.Host, f.Port}]; h != nil { // without TLS, or with it: the next way to connect
			h.config.Fallbacks = append(h.config.Fallbacks, f)
			continue
		}
		one := config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks, one.ValidateConnect = f.Host, f.Port, f.TLSConfig, nil, nil
		h := &pgHost{Place: diagnosis.Place(net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))), config: one}
		seen[address{f.Host, f.Port}], all = h, append(all, h)
	}
	if len(all) < 2 {
		return
	}
	var asked sync.WaitGroup
	for _, h := range all {
		asked.Go(func() { h.ask(ctx) })
	}
	asked.Wait()
	p.compare(all)
	if config.ValidateConnect == nil {
		p.check("hosts").Warn("add target_session_attrs=read-write to the URL", "several hosts and no target_session_attrs: the engine may connect to a standby")
	}
}

func (h *pgHost) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, hostLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, h.config)
	if err != nil {
		h.trouble = err
		return
	}
	defer conn.Close(ctx)
	h.trouble = conn.QueryRow(ctx, "SELECT pg_is_in_recovery(), pg_postmaster_start_time()", pgx.QueryExecModeExec).Scan(&h.standby, &h.started)
	h.clock, _ = diagnosis.ReadClock(func() (now time.Time, err error) {
		err = conn.QueryRow(ctx, "SELECT clock_timestamp()", pgx.QueryExecModeExec).Scan(&now)
		return now, err
	})
}

// compare compares the hosts.
func (p *postgreSQL) compare(all []*pgHost) {
	c := p.check("hosts")
	var primaries, standbys []string
	var first, last *pgHost
	servers := map[time.Time]bool{}
	for _, h := range all {
		known := servers[h.started] // by another pooler
		servers[h.started] = !h.started.IsZero()
		switch {
		case h.trouble != nil:
			c.At(h.Place).Warn("start it, or allow connections to it: it is needed when the primary fails", "no answer: %s", diagnosis.OneLine(h.trouble))
			continue
		case known:
			continue
		case h.standby:
			standbys = append(standbys, string(h.Place))
		default:
			primaries = append(primaries, string(h.Place))
		}
		if h.clock.Known && (first == nil || h.clock.Ahead < first.clock.Ahead) {
			first = h
		}
		if h.clock.Known && (last == nil || h.clock.Ahead > last.clock.Ahead) {
			last = h
		}
	}
	if len(primaries) > 1 {
		c.Fail("stop the former primary: both grant", "%s are primaries: a resource may have two holders", strings.Join(primaries, " and "))
	} else {
		c.OK("%d primary, %d standbys answer", len(primaries), len(standbys))
	}
	if first == last {
		return
	}
	skew := max(0, last.clock.Ahead-first.clock.Ahead-last.clock.Error-first.clock.Error)
	c = p.check("clock").With("skew_ms", diagnosis.Millis(skew))
	c.WarnIf(skew > clockWarn, "let all machines set their clocks by NTP, slewing",
		"the clocks of %s and %s are %s apart: a failover between them ends all leases so much early or late", first.Place, last.Place, diagnosis.Span(skew))
	c.Otherwise("the clocks of the hosts are within %s", diagnosis.Span(skew+last.clock.Error+first.clock.Error))
}
