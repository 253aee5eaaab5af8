package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// part is what a node does in the scene of report and push.
type part string

const (
	reporter part = "report"
	pusher   part = "push"
)

// lateNode is how much later the second node of a service gets to work: its clock
// is slow. By then a short job has ended.
const lateNode = 150 * time.Millisecond

// play connects, waits for the start, and builds or pushes the report.
func (n *node) play(ctx context.Context, c *holdfast.Client) error {
	if _, err := c.Snapshot(ctx, "report"); err != nil {
		return err
	}
	n.tell(report{Kind: ready})
	if <-n.lines != lineStart {
		return nil // the parent is gone
	}
	if n.Name[len(n.Name)-1] != '1' {
		time.Sleep(lateNode)
	}
	if n.Part == reporter {
		return n.once(ctx, c, 0, func(context.Context) error {
			time.Sleep(10 * time.Millisecond)
			n.tell(report{Kind: built})
			return nil
		})
	}
	for user := 1; user <= users; user++ {
		err := n.once(ctx, c, user, func(ctx context.Context) error {
			if err := n.dwell(ctx, user); err != nil {
				return err
			}
			n.tell(report{Kind: pushed, User: user})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// once does the work of the day, for a user or, with 0, for all: with a lock
// alone, or once.
func (n *node) once(ctx context.Context, c *holdfast.Client, user int, fn func(context.Context) error) error {
	name := "report"
	if user > 0 {
		name = fmt.Sprintf("push:user-%d", user)
	}
	if !n.Locked { // by Holdfast's marks, that is: this is a lock and no more
		return c.Mutex("plain:"+name, holdfast.WithTTL(pushTTL)).Do(ctx, fn)
	}
	_, err := c.Job(name, holdfast.Every(24*time.Hour), holdfast.RetryFailed(), holdfast.WithTTL(pushTTL)).Run(ctx, fn)
	return err
}

// dwell works on a push. It is not done yet; here the parent may catch the node.
func (n *node) dwell(ctx context.Context, user int) error {
	select {
	case line := <-n.lines:
		if line == lineTrap {
			n.tell(report{Kind: midWork, User: user})
			<-ctx.Done() // it is killed, and its lease runs out
		}
	default:
	}
	time.Sleep(2 * time.Millisecond)
	return ctx.Err()
}
