package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

// 30 requests for one account reach two nodes at once: 20 find enough on it.
// A request for an account that is locked elsewhere is answered all the same, as
// is one for another account meanwhile.
func TestRequestsOfAnAccountRunInTurn(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	for account, balance := range map[string]int{"account:7": 100, "account:8": 100} {
		if err := rdb.Set(t.Context(), account, balance, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var urls []string
	var nodes []*node.Process
	for range 2 {
		n := node.Start(t, "-redis", server.URL(), "-listen", "127.0.0.1:0", "-wait", "15s")
		nodes = append(nodes, n)
		urls = append(urls, "http://"+n.Await("listening on "))
	}
	hasty := node.Start(t, "-redis", server.URL(), "-listen", "127.0.0.1:0", "-wait", "100ms")
	withdraw := func(url, account string) int {
		answer, err := http.Post(url+"/accounts/"+account+"/withdraw?amount=5", "", nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	var paid, refused atomic.Int32
	var requests sync.WaitGroup
	for i := range 30 {
		requests.Go(func() {
			switch code := withdraw(urls[i%2], "7"); code {
			case http.StatusOK:
				paid.Add(1)
			case http.StatusConflict:
				refused.Add(1)
			default:
				t.Errorf("request %d was answered with %d", i, code)
			}
		})
	}
	requests.Wait()
	left, err := rdb.Get(t.Context(), "account:7").Int()
	if err != nil || paid.Load() != 20 || refused.Load() != 10 || left != 0 {
		t.Errorf("%d paid, %d refused, %d left, %v; want 20, 10, 0", paid.Load(), refused.Load(), left, err)
	}

	client, err := holdfast.New(goredis.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("account:8").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + hasty.Await("listening on ")
	if code := withdraw(url, "8"); code != http.StatusServiceUnavailable {
		t.Errorf("a locked account was answered with %d, want 503", code)
	}
	if code := withdraw(urls[0], "7"); code != http.StatusConflict {
		t.Errorf("the other account was answered with %d, want 409", code)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if code := withdraw(urls[0], "8"); code != http.StatusOK {
		t.Errorf("the account that was released was answered with %d, want 200", code)
	}
	for _, n := range append(nodes, hasty) {
		n.Signal(syscall.SIGTERM)
		n.Wait()
	}
}
