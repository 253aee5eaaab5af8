package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Series is the line of a chart.
type Series struct {
	Name   string  `json:"name"`   // in the API
	Title  string  `json:"title"`  // on the page, with its unit, such as "Grants per second"
	Source string  `json:"source"` // who has measured it, such as "Prometheus"
	Points []Point `json:"points"` // oldest first; those more than a minute apart are not joined
}

// A Point is a value at an instant.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

const (
	// seriesEvery is the least time between two readings of WithSeries, and seriesTimeout bounds one.
	seriesEvery   = 15 * time.Second
	seriesTimeout = 5 * time.Second
	// seriesPause is how long a page waits for them. The page of what is in use is not late because of them.
	seriesPause = 300 * time.Millisecond
)

// chart is a series as it is drawn.
type chart struct {
	Series
	Lines     []string // of SVG polylines, in a box of chartWidth and chartHeight
	Now, Most string
	Span      time.Duration
}

// The size of a chart, in its own units.
const (
	chartWidth  = 240
	chartHeight = 32
)

func chartsOf(all []Series) []chart {
	var out []chart
	for _, s := range all {
		out = append(out, chartOf(s))
	}
	return out
}

func chartOf(s Series) chart {
	c := chart{Series: s}
	if len(s.Points) == 0 {
		return c
	}
	first, last := s.Points[0], s.Points[len(s.Points)-1]
	most := slices.MaxFunc(s.Points, func(a, b Point) int { return cmp.Compare(a.Value, b.Value) }).Value
	c.Span, c.Now, c.Most = last.At.Sub(first.At), formatValue(last.Value), formatValue(most)
	if c.Span <= 0 {
		return c
	}
	scale := 1.0
	if most > 0 {
		scale = most
	}
	var line strings.Builder
	for i, p := range s.Points {
		x := float64(p.At.Sub(first.At)) / float64(c.Span) * chartWidth
		y := chartHeight - 1 - max(0, p.Value)/scale*(chartHeight-2)
		if i > 0 && p.At.Sub(s.Points[i-1].At) > hourPause {
			c.Lines = append(c.Lines, line.String())
			line.Reset()
		}
		if line.Len() == 0 {
			fmt.Fprintf(&line, "%.1f,%.1f ", x, y) // one point alone is a dot
		}
		fmt.Fprintf(&line, "%.1f,%.1f ", x, y)
	}
	c.Lines = append(c.Lines, line.String())
	return c
}

// formatValue writes a number, and a part of one with two digits.
func formatValue(v float64) string {
	if v == float64(int(v)) {
		return formatCount(int(v))
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// readSeries reads what WithSeries has.
func (d *dashboard) readSeries(ctx context.Context) ([]chart, error) {
	ctx, cancel := context.WithTimeout(ctx, seriesTimeout)
	defer cancel()
	all, err := d.given(ctx)
	return chartsOf(all), err
}

// givenCharts returns the charts of WithSeries, or why there are none.
func (d *dashboard) givenCharts(ctx context.Context) ([]chart, string) {
	if d.given == nil {
		return nil, ""
	}
	switch got := d.series.glance(ctx, seriesPause); {
	case got.err != nil:
		return nil, got.err.Error()
	case !got.ok:
		return nil, "no answer yet"
	default:
		return got.value, ""
	}
}

type jsonCharts struct {
	StoreTime time.Time `json:"store_time"`
	Charts    []Series  `json:"charts"`
	Version   int       `json:"version"`
}

// loadCharts has the charts of the first page for the API.
func (d *dashboard) loadCharts(ctx context.Context, _ *http.Request) (content, error) {
	got, err := d.list.get(ctx)
	if err != nil {
		return content{}, err
	}
	out := jsonCharts{Charts: []Series{}, Version: jsonVersion}
	var all []chart
	if got.ok {
		all, out.StoreTime = got.value.charts, got.value.now.UTC()
	}
	var part error
	if d.given != nil {
		given, err := d.series.get(ctx)
		if err != nil {
			return content{}, err
		}
		if all = slices.Concat(all, given.value); given.err != nil {
			part = errors.New("the charts of another source: " + given.err.Error())
		}
	}
	for _, c := range all {
		c.Points = orEmpty(c.Points)
		out.Charts = append(out.Charts, c.Series)
	}
	return content{json: out, fresh: got.freshness(), part: part}, nil
}
