package holdfast_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// Two nodes want to build the report of the day. Only one does, even if they do
// not run at the same time.
func ExampleJob_Run() {
	store := memory.New() // goredis.New(rdb) in production
	for _, node := range []string{"a", "b"} {
		c, err := holdfast.New(store)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer c.Close()
		job := c.Job("daily-report", holdfast.Every(24*time.Hour))
		ran, err := job.Run(context.Background(), func(ctx context.Context) error {
			fmt.Println("node", node, "builds the report")
			return nil
		})
		fmt.Println("node", node, "ran:", ran, err)
	}
	// Output:
	// node a builds the report
	// node a ran: true <nil>
	// node b ran: false <nil>
}

// At eight o'clock UTC, Monday to Friday, one of the nodes pushes the report.
// If it fails or dies, another node does.
func ExampleJob_Serve() {
	c, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond) // until the service ends
	defer cancel()
	job := c.Job("push", holdfast.Cron("0 8 * * 1-5"), holdfast.RetryFailed())
	err = job.Serve(ctx, func(ctx context.Context) error {
		fmt.Println("push with token", holdfast.LeaseFromContext(ctx).Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// holdfast: serve "push": context deadline exceeded
}
