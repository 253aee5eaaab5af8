package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxPrometheusAnswer bounds an answer of Prometheus in bytes. An hour of a query is about 10 kB.
const maxPrometheusAnswer = 1 << 20

// prometheusStep is the time from one point of a query to the next.
const prometheusStep = 15 * time.Second

// prometheusQueries are the series of Prometheus, over the metrics of otelholdfast, and their queries.
func prometheusQueries() []struct {
	Series
	query string
} {
	const source = "Prometheus"
	return []struct {
		Series
		query string
	}{
		{Series{Name: "acquires_pending", Title: "Waiting", Source: source}, `sum(holdfast_acquire_pending)`},
		{Series{Name: "lease_count", Title: "Held", Source: source}, `sum(holdfast_lease_count)`},
		{Series{Name: "grants_per_second", Title: "Grants per second", Source: source}, `sum(rate(holdfast_acquire_duration_seconds_count{holdfast_outcome="granted"}[5m]))`},
	}
}

// Prometheus returns a function for [WithSeries] that asks the Prometheus at an
// address for the last hour of waits, leases and grants of all services with
// otelholdfast that it scrapes. The address, such as http://prometheus:9090, may
// have a path and a user with a password. They are in no error. Redirects to
// another host are not followed.
func Prometheus(address string) (func(context.Context) ([]Series, error), error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("the address of Prometheus is not http://host or https://host") // it may have a password
	}
	client := &http.Client{CheckRedirect: sameHost}
	return func(ctx context.Context) ([]Series, error) {
		var out []Series
		now := time.Now()
		for _, q := range prometheusQueries() {
			s := q.Series
			var err error
			if s.Points, err = queryRange(ctx, client, base, q.query, now); err != nil {
				return nil, fmt.Errorf("prometheus at %s: %w", base.Host, err)
			}
			out = append(out, s)
		}
		return out, nil
	}, nil
}

// sameHost follows redirects only to where the request was sent.
func sameHost(to *http.Request, via []*http.Request) error {
	if first := via[0].URL; to.URL.Host != first.Host || to.URL.Scheme != first.Scheme {
		return errors.New("it redirects to another host")
	}
	if len(via) > 3 {
		return errors.New("it redirects again and again")
	}
	return nil
}

// queryRange returns the points of a query in the hour up to an instant.
func queryRange(ctx context.Context, client *http.Client, base *url.URL, query string, to time.Time) ([]Point, error) {
	at := base.JoinPath("api/v1/query_range")
	at.RawQuery = url.Values{
		"query": {query}, "step": {strconv.Itoa(int(prometheusStep.Seconds()))},
		"start": {strconv.FormatInt(to.Add(-hourSpan).Unix(), 10)}, "end": {strconv.FormatInt(to.Unix(), 10)},
	}.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, errors.New("the request could not be made")
	}
	resp, err := client.Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // without the address
		}
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPrometheusAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxPrometheusAnswer:
		return nil, fmt.Errorf("its answer has more than %d bytes", maxPrometheusAnswer)
	}
	var answer rangeAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("its answer, %s, is not that of Prometheus", resp.Status)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("it answers %s: %.200s", resp.Status, answer.Error)
	}
	return answer.points()
}

// rangeAnswer is the answer to a query, in Prometheus's names.
type rangeAnswer struct {
	Status, Error string
	Data          struct {
		Result []struct {
			Values [][2]any // seconds since 1970, and the value as a text
		}
	}
}

// points returns the points of the one series of a sum. It is empty if Prometheus has no such metric.
func (a rangeAnswer) points() ([]Point, error) {
	var out []Point
	for _, result := range a.Data.Result {
		for _, v := range result.Values {
			seconds, ok := v[0].(float64)
			text, isText := v[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if !ok || !isText || err != nil {
				return nil, errors.New("its answer has a value that is none")
			}
			if !math.IsNaN(value) && !math.IsInf(value, 0) {
				out = append(out, Point{time.UnixMilli(int64(seconds * 1000)).UTC(), value})
			}
		}
	}
	return out, nil
}
