package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// flockClient locks files beside that of the store, by flock(2): for the processes of one host, without a
// token, a TTL or an order.
type flockClient struct {
	dir string

	mu   sync.Mutex
	open []*os.File
}

func openFlock(s settings) (client, error) {
	return &flockClient{dir: filepath.Dir(strings.TrimPrefix(s.addrs[0], "file:"))}, nil
}

func (p *flockClient) lock(resource string) lock {
	var f *os.File
	return calls{
		lock: func(context.Context) (err error) {
			if f == nil {
				if f, err = os.OpenFile(filepath.Join(p.dir, resource+".lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
					return err
				}
				p.mu.Lock()
				p.open = append(p.open, f)
				p.mu.Unlock()
			}
			return syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		},
		unlock: func(context.Context) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) },
	}
}

func (p *flockClient) close() {
	for _, f := range p.open {
		_ = f.Close()
	}
}
