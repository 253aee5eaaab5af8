package holdfast_test

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// Three parts of a report are built, here or on other machines; then it is sent.
func ExampleClient_Latch() {
	ctx := context.Background()
	c, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	parts := c.Latch("report:2026-11")
	set, err := parts.TrySet(ctx, 3)
	fmt.Println("set:", set, err)
	for range 3 {
		go func() {
			// build a part, then
			if err := parts.CountDown(ctx); err != nil {
				fmt.Println(err)
			}
		}()
	}
	if err := parts.Wait(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("send it")
	// Output:
	// set: true <nil>
	// send it
}
