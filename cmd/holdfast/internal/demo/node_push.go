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

// lateNode is how much later the second node of a service begins: its clock is slow. By
// then a short job has ended.
const lateNode = 150 * time.Millisecond

// buildOrPush connects, waits for the start, and builds or pushes the report.
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

// runOnce does the work of the day, for a user or, with 0, for all: under a lock
// alone, or once per day by a Job.
func (n *demoNode) runOnce(ctx context.Context, c *holdfast.Client, user int, fn func(context.Context) error) error {
	name := "report"
	if user > 0 {
		name = fmt.Sprintf("push:user-%d", user)
	}
	if !n.Locked { // without Holdfast's marks: this is a lock and no more
		return c.Mutex("plain:"+name, holdfast.WithTTL(pushTTL)).Do(ctx, fn)
	}
	_, err := c.Job(name, holdfast.Every(24*time.Hour), holdfast.RetryFailed(), holdfast.WithTTL(pushTTL)).Run(ctx, fn)
	return err
}

// workOnPush works on a push, which is not done yet. The parent may trap the node here.
func (n *demoNode) workOnPush(ctx context.Context, user int) error {
	select {
	case line := <-n.lines:
		if line == lineTrap {
			n.send(report{Kind: midWork, User: user})
			<-ctx.Done() // it is killed, and its lease runs out
		}
	default:
	}
	time.Sleep(2 * time.Millisecond)
	return ctx.Err()
}
