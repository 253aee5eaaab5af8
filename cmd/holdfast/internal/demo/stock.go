package demo

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// resource is the name of the lock and of the article.
const resource = "stock:42"

// keepStock is the TTL of the stock, in case no process deletes it.
const keepStock = 10 * time.Minute

//go:embed sell.lua
var sellSource string

// stock is the number of units on sale, in the store, and the number sold.
type stock struct {
	rdb  redis.UniversalClient
	key  string
	sell *redis.Script
}

// staleError reports that the stock refused a token below one that it had seen.
type staleError struct{ token, top uint64 }

func (e *staleError) Error() string {
	return fmt.Sprintf("token %d is refused: the stock has seen %d", e.token, e.top)
}

func newStock(rdb redis.UniversalClient, prefix string) *stock {
	return &stock{rdb: rdb, key: prefix + ":stock", sell: redis.NewScript(sellSource)}
}

// fill puts units on sale and sets the number of sales to 0.
func (s *stock) fill(ctx context.Context, units int) error {
	pipe := s.rdb.TxPipeline()
	pipe.Del(ctx, s.key)
	pipe.HSet(ctx, s.key, "units", units, "sold", 0)
	pipe.Expire(ctx, s.key, keepStock)
	_, err := pipe.Exec(ctx)
	return err
}

// count returns the units left and the units sold.
func (s *stock) count(ctx context.Context) (left, sold int, err error) {
	v, err := s.rdb.HMGet(ctx, s.key, "units", "sold").Result()
	if err != nil {
		return 0, 0, err
	}
	if left, err = number(v[0]); err != nil {
		return 0, 0, err
	}
	sold, err = number(v[1])
	return left, sold, err
}

// read and write are without a fencing token.
func (s *stock) read(ctx context.Context) (int, error) {
	v, err := s.rdb.HGet(ctx, s.key, "units").Result()
	if err != nil {
		return 0, err
	}
	return number(v)
}

func (s *stock) write(ctx context.Context, units int) error {
	pipe := s.rdb.TxPipeline()
	pipe.HSet(ctx, s.key, "units", units)
	pipe.HIncrBy(ctx, s.key, "sold", 1)
	_, err := pipe.Exec(ctx)
	return err
}

// claim reads under a fencing token: from now on lower tokens are refused.
func (s *stock) claim(ctx context.Context, token uint64) (units int, err error) {
	return s.guarded(ctx, token, "")
}

// writeFenced sells one unit under a fencing token. It returns a *staleError if the stock
// refuses the token.
func (s *stock) writeFenced(ctx context.Context, token uint64, units int) error {
	_, err := s.guarded(ctx, token, strconv.Itoa(units))
	return err
}

func (s *stock) guarded(ctx context.Context, token uint64, units string) (int, error) {
	v, err := s.sell.Run(ctx, s.rdb, []string{s.key}, strconv.FormatUint(token, 10), units).StringSlice()
	if err != nil {
		return 0, err
	}
	if len(v) != 2 {
		return 0, fmt.Errorf("the stock answered %q", v)
	}
	if v[0] == "stale" {
		top, err := strconv.ParseUint(v[1], 10, 64)
		if err != nil {
			return 0, err
		}
		return 0, &staleError{token, top}
	}
	return strconv.Atoi(v[1])
}

func number(v any) (int, error) {
	text, ok := v.(string)
	if !ok {
		return 0, fmt.Errorf("the stock is gone from the store")
	}
	return strconv.Atoi(text)
}
