package redistest

import (
	"context"
	"fmt"
	"net"
)

// LaunchProxy starts a proxy for several tests, as Launch does with a server. The caller must call
// Stop.
func LaunchProxy(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("redistest: proxy: %w", err)
	}
	p := &Proxy{target: target, listener: listener, links: map[*link]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.tasks.Go(p.serve)
	return p, nil
}

// Stop ends the proxy and its connections; no goroutine is left when it returns.
func (p *Proxy) Stop() { p.close() }
