package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/web"
)

// The charts of a Prometheus are on the page, whichever way its address is given, and the password is not.
func TestServePrometheus(t *testing.T) {
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "" && password != "s3cret" {
			http.Error(w, "who is it?", http.StatusUnauthorized)
			return
		}
		q := r.URL.Query()
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[%s,"1"],[%s,"1234.5"]]}]}}`, q.Get("start"), q.Get("end"))
	}))
	defer prometheus.Close()
	secret := strings.Replace(prometheus.URL, "//", "//ann:s3cret@", 1)
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmd  serveCmd
		env  string
		want bool
	}{
		"none":          {serveCmd{}, "", false},
		"a flag":        {serveCmd{Prometheus: prometheus.URL}, "http://127.0.0.1:1", true},
		"a file":        {serveCmd{PrometheusFile: file}, "http://127.0.0.1:1", true},
		"a variable":    {serveCmd{}, secret, true},
		"a wrong one":   {serveCmd{}, strings.Replace(secret, "s3cret", "wr0ng", 1), false},
		"one that died": {serveCmd{}, "http://ann:s3cret@127.0.0.1:1", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(prometheusVar, c.env)
			opts, err := c.cmd.charts()
			if err != nil {
				t.Fatal(err)
			}
			client, err := holdfast.New(memory.New())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			h := web.Handler(client, opts...)
			for _, path := range []string{"/api/v1/charts", "/"} { // the first waits for the Prometheus
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
				text := w.Body.String()
				if path == "/" && (strings.Contains(text, "max 1234.50") != c.want || strings.Contains(text, "could not be read") == (c.want || c.env == "")) {
					t.Errorf("%s: %d\n%s", path, w.Code, text)
				}
				if strings.Contains(text, "s3cret") || strings.Contains(text, "wr0ng") {
					t.Errorf("%s shows the password: %s", path, text)
				}
			}
		})
	}
}

// A password is no argument, and what cannot be an address is refused without being shown.
func TestServePrometheusRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmd       serveCmd
		env, want string
	}{
		"a password":   {serveCmd{Prometheus: "http://ann:s3cret@prometheus:9090"}, "", "others see arguments"},
		"no scheme":    {serveCmd{Prometheus: "prometheus:9090"}, "", "is not http://host"},
		"no file":      {serveCmd{PrometheusFile: empty + "x"}, "", "check --prometheus-file"},
		"empty file":   {serveCmd{PrometheusFile: empty}, "http://prometheus:9090", "is empty"},
		"not an URL":   {serveCmd{}, "http://ann:s3cret@a b", "is not http://host"},
		"another kind": {serveCmd{}, "unix://ann:s3cret@host", "is not http://host"},
	} {
		t.Setenv(prometheusVar, c.env)
		if _, err := c.cmd.charts(); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
