package doctorstores

import (
	"bufio"
	"context"
	"crypto/tls"
	"net/http"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// memberLimit bounds each question to a member.
const memberLimit = 2 * time.Second

// etcdMember is one endpoint and its answers.
type etcdMember struct {
	diagnosis.Place
	endpoint string
	named    bool // in the URL
	trouble  error
	status   *clientv3.StatusResponse // nil: it did not answer
	before   map[string]float64       // metrics before the trial
	metrics  map[string]float64       // nil: they are not disclosed
	clock    diagnosis.ClockReading   // of whole seconds
}

func newEtcdMember(endpoint string) *etcdMember {
	return &etcdMember{Place: diagnosis.Place(hostPort(endpoint)), endpoint: endpoint}
}

func (m *etcdMember) ask(ctx context.Context, c *clientv3.Client, secure *tls.Config) {
	limited, cancel := context.WithTimeout(ctx, memberLimit)
	defer cancel()
	if m.status, m.trouble = c.Status(limited, m.endpoint); m.trouble != nil {
		m.status = nil
		return
	}
	m.askMetrics(ctx, secure)
}

// askMetrics reads what the member shows by HTTP, if that is reachable: the counters that say whether it writes to
// disk, and its time of day.
func (m *etcdMember) askMetrics(ctx context.Context, secure *tls.Config) {
	url := m.endpoint
	if !strings.Contains(url, "://") {
		url = "http://" + url
		if secure != nil {
			url = "https://" + string(m.Place)
		}
	}
	if !strings.HasPrefix(url, "http") {
		return // a socket
	}
	ctx, cancel := context.WithTimeout(ctx, memberLimit)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: secure}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return
	}
	sent := time.Now()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return
	}
	defer response.Body.Close()
	if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		half := time.Since(sent) / 2
		m.clock = diagnosis.ClockReading{Known: true, Ahead: at.Add(500 * time.Millisecond).Sub(sent.Round(0).Add(half)), Error: half + 500*time.Millisecond}
	}
	if response.StatusCode != http.StatusOK {
		return
	}
	m.metrics = map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && strings.HasPrefix(name, "etcd_") {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				m.metrics[name] = n
			}
		}
	}
}
