// Command quickstart is the program of the README.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // localhost:6379 if it is empty
	client, err := holdfast.New(goredis.New(rdb))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("stock:42").Do(ctx, func(ctx context.Context) error { // waits in turn until ctx ends
		token := holdfast.LeaseFromContext(ctx).Token()
		fmt.Println("held with fencing token", token) // UPDATE … SET fence = $token WHERE id = 42 AND fence <= $token
		return ctx.Err()                              // ctx ends before another can enter
	})
	if err != nil {
		log.Fatal(err)
	}
}
