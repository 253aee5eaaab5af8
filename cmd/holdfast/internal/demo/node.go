package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// demoNode is the process of one node: it sells, or builds or pushes the report. Its steps
// run in one goroutine.
type demoNode struct {
	config
	drivers []store.Driver
	stock   *stock
	mutex   *holdfast.Mutex
	lines   <-chan string // from the parent; closed when the parent has died
	out     *json.Encoder
}

// NodeMain runs a node. It opens stores of Redis and those of drivers. If the program was started under
// NodeName, main must call it and exit with its result.
func NodeMain(in io.Reader, out io.Writer, drivers []store.Driver) int {
	logging.Disable()
	n := &demoNode{out: json.NewEncoder(out), drivers: drivers}
	if err := n.run(in); err != nil {
		n.send(report{Kind: failed, Text: err.Error()})
		return 1
	}
	return 0
}

func (n *demoNode) run(in io.Reader) error {
	input := bufio.NewScanner(in)
	if !input.Scan() {
		return errors.New(NodeName + " is started by holdfast demo; it is of no use by itself")
	}
	if err := json.Unmarshal(input.Bytes(), &n.config); err != nil {
		return fmt.Errorf("first line: %w", err)
	}
	// The input ends when the parent dies; the node then ends too.
	ctx, cancel := context.WithCancel(context.Background())
	lines := make(chan string)
	n.lines = lines
	go func() {
		defer cancel()
		defer close(lines)
		for input.Scan() {
			lines <- input.Text()
		}
	}()
	opener := store.Opener{TLS: n.TLS, Drivers: n.drivers}
	st, err := opener.Open(n.Store)
	if err != nil {
		return err
	}
	defer st.Close()
	data := st
	if n.Data != "" {
		if data, err = (store.Opener{}).Open(n.Data); err != nil {
			return err
		}
		defer data.Close()
	}
	n.stock = newStock(data.Client(), n.Prefix)
	return n.open(ctx, st)
}

// open connects, waits for lineStart, and sells.
func (n *demoNode) open(ctx context.Context, st *store.Store) error {
	c, err := holdfast.New(st.Engine(), holdfast.WithPrefix(n.Prefix), holdfast.WithName("demo "+n.Name))
	if err != nil {
		return err
	}
	defer c.Close()
	if n.Part != "" {
		return n.buildOrPush(ctx, c)
	}
	n.mutex = c.Mutex(resource, holdfast.WithTTL(ttl), holdfast.WithReason("sell one unit"))
	if _, err := n.stock.read(ctx); err != nil {
		return err
	}
	n.send(report{Kind: ready})
	if <-n.lines != lineStart {
		return nil // the parent is gone
	}
	turn := n.sellPlain
	if n.Locked {
		turn = n.sellLocked
	}
	for {
		more, err := turn(ctx)
		if err != nil || !more {
			return err
		}
	}
}

// work takes the time of a service between reading the stock and writing it.
func work() { time.Sleep(time.Duration(500+rand.IntN(1500)) * time.Microsecond) }

// sellPlain sells one unit without a lock. It returns false if no unit is left.
func (n *demoNode) sellPlain(ctx context.Context) (bool, error) {
	units, err := n.stock.read(ctx)
	if err != nil || units <= 0 {
		return false, err
	}
	work()
	if err := n.stock.write(ctx, units-1); err != nil {
		return false, err
	}
	n.send(report{Kind: sold})
	return true, nil
}

// sellLocked sells one unit under a lease. It returns false if no unit is left.
func (n *demoNode) sellLocked(ctx context.Context) (bool, error) {
	lease, err := n.mutex.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer lease.Release(ctx)
	token := lease.Token()
	n.send(report{Kind: granted, Token: token})
	units, err := n.stock.claim(ctx, token)
	if n.late(lease, err) {
		return true, nil
	}
	if err != nil || units <= 0 {
		return false, err
	}
	n.pause(token)
	// The lease is not checked here: the process may be paused after any check, so
	// the stock itself must refuse a late write.
	err = n.stock.writeFenced(ctx, token, units-1)
	if n.late(lease, err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	n.send(report{Kind: sold, Token: token})
	return true, nil
}

// pause works for a moment. If the parent has sent trap, it reports midWork and waits instead.
func (n *demoNode) pause(token uint64) {
	select {
	case line := <-n.lines:
		if line == lineTrap {
			n.send(report{Kind: midWork, Token: token})
			<-n.lines // goOn
			return
		}
	default:
	}
	work()
}

// late reports whether err is a *staleError. If so, late sends a refused report to the parent.
func (n *demoNode) late(lease *holdfast.Lease, err error) bool {
	var stale *staleError
	if !errors.As(err, &stale) {
		return false
	}
	lost := errors.Is(lease.Err(), holdfast.ErrLost)
	n.send(report{Kind: refused, Token: stale.token, Above: stale.top, Lost: lost})
	return true
}

// send sends a report to the parent. It ignores errors: if the parent has died, the end of
// the input ends the node.
func (n *demoNode) send(r report) { _ = n.out.Encode(r) }
