package holdfast_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// A queue delivers a message twice. It is handled once.
func ExampleClient_Once() {
	c, err := holdfast.New(memory.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for range 2 {
		ran, err := c.Once(context.Background(), "message:4711", 24*time.Hour, func(ctx context.Context) error {
			fmt.Println("handle it")
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// handle it
	// true <nil>
	// false <nil>
}
