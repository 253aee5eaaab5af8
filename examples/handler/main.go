// Command handler is a node of a web service in which requests that change one
// account run one after the other, whichever node they reach, and requests for
// different accounts side by side.
//
//	redis-cli set account:7 100
//	go run ./handler -listen 127.0.0.1:8080
//	curl -X POST '127.0.0.1:8080/accounts/7/withdraw?amount=5'
//
// A request waits for the lock for a while and is then answered with 503 and
// Retry-After. What it does ends when its client goes away or the lease is lost.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/redis/go-redis/v9"
)

func main() {
	url := flag.String("redis", cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"), "URL of the Redis with the locks and the accounts; or REDIS_URL")
	listen := flag.String("listen", "127.0.0.1:8080", "host:port to serve")
	wait := flag.Duration("wait", 2*time.Second, "how long a request waits for the lock")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *url, *listen, *wait); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, url, listen string, wait time.Duration) error {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.WithName("handler"))
	if err != nil {
		return err
	}
	defer client.Close()

	bank := &bank{guard: fence.NewRedis(rdb)}
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/withdraw", exclusive(client, wait, account, http.HandlerFunc(bank.withdraw)))
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", listener.Addr())
	server := &http.Server{Handler: mux}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return server.Shutdown(last) // waits for requests under way, which release their leases
	}
}

// account names the lock of a request.
func account(r *http.Request) string { return "account:" + r.PathValue("id") }

// exclusive runs next under the lock that name gives. The request that next gets
// has the lease's context, which ends with the request or with the lease.
func exclusive(client *holdfast.Client, wait time.Duration, name func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The deadline is for the wait only: lease.Context would end with it too.
		waiting, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		timer := time.AfterFunc(wait, func() { cancel(context.DeadlineExceeded) })
		lease, err := client.Mutex(name(r), holdfast.WithReason(r.Method+" "+r.URL.Path)).Lock(waiting)
		if err == nil {
			defer lease.Release(context.Background())
		}
		if err != nil || !timer.Stop() { // or the grant came as the time ran out
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy, try again", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r.WithContext(lease.Context()))
	})
}

type bank struct{ guard *fence.Redis }

// withdraw takes an amount off an account, unless there is too little on it.
func (b *bank) withdraw(w http.ResponseWriter, r *http.Request) {
	amount, err := strconv.Atoi(r.URL.Query().Get("amount"))
	if err != nil || amount <= 0 {
		http.Error(w, "amount: a number above 0", http.StatusBadRequest)
		return
	}
	left, err := b.take(r.Context(), account(r), amount)
	switch {
	case err == nil:
		fmt.Fprintln(w, left)
	case errors.Is(err, errTooLittle):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, "try again", http.StatusServiceUnavailable)
	}
}

var errTooLittle = errors.New("too little on the account")

func (b *bank) take(ctx context.Context, account string, amount int) (int, error) {
	token := holdfast.LeaseFromContext(ctx).Token()
	text, err := b.guard.Get(ctx, account, token, account)
	if err != nil {
		return 0, err
	}
	balance, err := strconv.Atoi(text)
	if err != nil {
		return 0, err
	}
	if balance < amount {
		return 0, errTooLittle
	}
	return balance - amount, b.guard.Set(ctx, account, token, account, balance-amount, 0)
}
