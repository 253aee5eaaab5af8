package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// nowPage is every resource in use.
type nowPage struct {
	paging
	Rows    []*row
	Totals  totals
	Kinds   []string
	States  []condition
	Trip    time.Duration
	Offset  time.Duration
	Waiting chart
	Leases  chart
}

// kinds are those that the filter offers.
func kinds() []string {
	var out []string
	for _, k := range []engine.Kind{engine.KindMutex, engine.KindRW, engine.KindSemaphore, engine.KindElection, engine.KindJob, engine.KindCond, engine.KindLatch} {
		out = append(out, string(k))
	}
	return out
}

func (d *dashboard) loadNow(ctx context.Context, r *http.Request) (content, error) {
	got, err := d.list.get(ctx)
	if err != nil {
		return content{}, err
	}
	q := queryOf(r.URL.Query())
	page := nowPage{Kinds: kinds(), States: conditions(), paging: paging{listQuery: q}}
	out := jsonList{Resources: []jsonRow{}, Version: jsonVersion}
	if l := got.value; got.ok {
		page.Rows, page.paging = cut(selectRows(l.rows, q), q)
		page.Totals, page.Trip, page.Offset = l.totals, l.trip, l.offset
		page.Waiting = chartOf(l.trend, func(t totals) int { return t.Waiters })
		page.Leases = chartOf(l.trend, func(t totals) int { return t.Leases })
		out.StoreTime, out.Totals = l.now.UTC(), l.totals
		out.Matched, out.Page, out.Pages = page.Matched, page.Page, page.Pages
		out.TookMS = describe.Milliseconds(got.took)
		for _, r := range page.Rows {
			out.Resources = append(out.Resources, toJSONRow(r))
		}
	}
	return content{body: page, json: out, fresh: got.freshness()}, nil
}

// chart is a line over the time in which the page was looked at.
type chart struct {
	Points string // of an SVG polyline, in a box of chartWidth and chartHeight
	Now    int
	Most   int
	Span   time.Duration
}

// The size of a chart, in its own units.
const (
	chartWidth  = 240
	chartHeight = 32
)

func chartOf(all []totals, value func(totals) int) chart {
	if len(all) == 0 {
		return chart{}
	}
	first, last := all[0], all[len(all)-1]
	c := chart{Now: value(last), Most: value(slices.MaxFunc(all, func(a, b totals) int { return value(a) - value(b) })), Span: last.At.Sub(first.At)}
	if c.Span <= 0 {
		return c
	}
	var points strings.Builder
	for _, t := range all {
		x := float64(t.At.Sub(first.At)) / float64(c.Span) * chartWidth
		y := chartHeight - 1 - float64(value(t))/float64(max(1, c.Most))*(chartHeight-2)
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
	}
	c.Points = points.String()
	return c
}
