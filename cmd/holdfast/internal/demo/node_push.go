package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
)

// part is the work of a node in the second scene.
type part string

const (
	reporter part = "report"
	pusher   part = "push"
)

// lateNode is how much later than the first the second node of a service begins, as with a
// slow clock. A short job has ended by then.
const lateNode = 150 * time.Millisecond

// buildOrPush connects, waits for lineStart, and builds or pushes the report.
func (n *demoNode) buildOrPush(ctx context.Context, c *holdfast.Client) error {
	if _, err := c.Snapshot(ctx, "report"); err != nil {
		return err
	}
	n.send(report{Kind: ready})
	if <-n.lines != lineStart {
		return nil // the parent is gone
	}
	if n.Name[len(n.Name)-1] != '1' {
		time.Sleep(lateNode)
	}
	if n.Part == reporter {
		return n.runOnce(ctx, c, 0, func(context.Context) error {
			time.Sleep(10 * time.Millisecond)
			n.send(report{Kind: built})
			return nil
		})
	}
	for user := 1; user <= users; user++ {
		err := n.runOnce(ctx, c, user, func(ctx context.Context) error {
			if err := n.workOnPush(ctx, user); err != nil {
				return err
			}
			n.send(report{Kind: pushed, User: user})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// runOnce runs work for a user, or for all with user 0: under a lock alone, or once per day
// by a Job.
func (n *demoNode) runOnce(ctx context.Context, c *holdfast.Client, user int, fn func(context.Context) error) error {
	name := "report"
	if user > 0 {
		name = fmt.Sprintf("push:user-%d", user)
	}
	if !n.Locked { // a lock alone, without marks
		return c.Mutex("plain:"+name, holdfast.WithTTL(pushTTL)).Do(ctx, fn)
	}
	_, err := c.Job(name, holdfast.Every(24*time.Hour), holdfast.RetryFailed(), holdfast.WithTTL(pushTTL)).Run(ctx, fn)
	return err
}

// workOnPush takes the time of the work before a push. The parent may stop the node here.
func (n *demoNode) workOnPush(ctx context.Context, user int) error {
	select {
	case line := <-n.lines:
		if line == lineTrap {
			n.send(report{Kind: midWork, User: user})
			<-ctx.Done() // the parent kills the node before that
		}
	default:
	}
	time.Sleep(2 * time.Millisecond)
	return ctx.Err()
}
