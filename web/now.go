package web

import (
	"context"
	"net/http"
	"slices"
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
	Charts  []chart
	Trouble string // why those of WithSeries are missing
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
		given, trouble := d.givenCharts(ctx)
		page.Charts, page.Trouble = slices.Concat(l.charts, given), trouble
		out.StoreTime, out.Totals = l.now.UTC(), l.totals
		out.Matched, out.Page, out.Pages = page.Matched, page.Page, page.Pages
		out.TookMS = describe.Milliseconds(got.took)
		for _, r := range page.Rows {
			out.Resources = append(out.Resources, toJSONRow(r))
		}
	}
	return content{body: page, json: out, fresh: got.freshness()}, nil
}
