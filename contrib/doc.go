// Package contrib has a dashboard for Grafana and alert rules for Prometheus,
// over the metrics of otelholdfast. It has no code but the tests of both.
package contrib
