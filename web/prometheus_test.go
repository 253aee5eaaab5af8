package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/web"
)

// series asks a Prometheus that answers by a handler.
func series(t *testing.T, answer http.HandlerFunc) ([]web.Series, error) {
	t.Helper()
	server := httptest.NewServer(answer)
	defer server.Close()
	read, err := web.Prometheus(strings.Replace(server.URL, "http://", "http://ann:s3cret@", 1) + "/below/")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return read(ctx)
}

// The last hour of each query is read, with the password of the address.
func TestPrometheus(t *testing.T) {
	var queries []string
	all, err := series(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		q := r.URL.Query()
		queries = append(queries, q.Get("query"))
		var from, to int64
		_, err := fmt.Sscan(q.Get("start")+" "+q.Get("end"), &from, &to)
		if r.URL.Path != "/below/api/v1/query_range" || user != "ann" || password != "s3cret" || err != nil || to-from != 3600 || time.Since(time.Unix(to, 0)).Abs() > limit {
			t.Errorf("%s as %q with %q", r.URL, user, password)
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[%d,"1"],[%d.5,"NaN"],[%d.5,"2.5"]]}]}}`, from, from, to)
	})
	if err != nil || len(all) != 3 || len(queries) != 3 {
		t.Fatalf("%v, %v after %q", all, err, queries)
	}
	for i, part := range []string{"holdfast_acquire_pending", "holdfast_lease_count", `rate(holdfast_acquire_duration_seconds_count{holdfast_outcome="granted"}`} {
		s := all[i]
		if !strings.Contains(queries[i], part) || s.Source != "Prometheus" || len(s.Points) != 2 || s.Points[1].Value != 2.5 || s.Points[1].At.Sub(s.Points[0].At) != time.Hour+500*time.Millisecond {
			t.Errorf("%q: %+v", queries[i], s)
		}
	}
}

// A Prometheus without these metrics has no points, which is no error.
func TestPrometheusWithoutTheMetrics(t *testing.T) {
	all, err := series(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	})
	if err != nil || len(all) != 3 || len(all[0].Points) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// Whatever goes wrong is said in a line, without the password, and the password goes to no other host.
func TestPrometheusFails(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("another host got %s", r.URL) }))
	defer other.Close()
	for want, answer := range map[string]http.HandlerFunc{
		"400 Bad Request: parse error": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"status":"error","error":"parse error"}`)
		},
		"401 Unauthorized, is not that of Prometheus": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusUnauthorized) },
		"has more than 1048576 bytes":                 func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2<<20)) }, // it is not read to its end
		"redirects to another host":                   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) },
		"redirects again and again":                   func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) },
		"a value that is none": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"status":"success","data":{"result":[{"values":[["x","1"]]}]}}`)
		},
		"EOF": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		all, err := series(t, answer)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "ann") {
			t.Errorf("%v, %v; want %q", all, err, want)
		}
	}
	for _, address := range []string{"", "localhost:9090", "ftp://ann:s3cret@host", "http://ann:s3cret@", "http://ann:s3cret@host:port", "\x00"} {
		if _, err := web.Prometheus(address); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
