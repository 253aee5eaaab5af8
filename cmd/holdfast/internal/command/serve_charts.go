package command

import (
	"net/url"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/web"
)

// prometheusVar is the environment variable with what --prometheus has in an argument.
const prometheusVar = "HOLDFAST_SERVE_PROMETHEUS"

// charts returns the option that draws charts from a Prometheus; none if there is none.
func (c *serveCmd) charts() ([]web.Option, error) {
	address := c.Prometheus
	if u, err := url.Parse(address); address != "" && (err != nil || u.User != nil) {
		return nil, fail(exitUsage, "--prometheus: write http://host:port; with a user and a password write it into --prometheus-file or %s, since others see arguments", prometheusVar)
	}
	if c.PrometheusFile != "" && address == "" {
		data, err := os.ReadFile(c.PrometheusFile)
		if err != nil {
			return nil, fail(exitConfig, "%v; check --prometheus-file", err)
		}
		if address = strings.TrimSpace(string(data)); address == "" {
			return nil, fail(exitConfig, "%s is empty: write the URL of a Prometheus into it", c.PrometheusFile)
		}
	}
	if address == "" {
		address = os.Getenv(prometheusVar)
	}
	if address == "" {
		return nil, nil
	}
	read, err := web.Prometheus(address)
	if err != nil {
		return nil, fail(exitConfig, "%v; check --prometheus, --prometheus-file or %s", err, prometheusVar)
	}
	return []web.Option{web.WithSeries(read)}, nil
}
