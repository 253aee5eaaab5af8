package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/web"
)

// The page of the clients has up to a hundred leases of each, most of them folded in.
func TestClientsWithManyLeases(t *testing.T) {
	c := newClient(t, memory.New(), "api")
	for i := range 120 {
		lock(t, c, fmt.Sprintf("order:%03d", i))
	}
	_, page := get(t, web.Handler(c), "/clients")
	if n := strings.Count(page, `href="resource?name=order`); n != 100 || !strings.Contains(page, "<summary>and 117 more</summary>") || !strings.Contains(page, "and 20 more, which the API lists") {
		t.Errorf("%d leases, want 100:\n%s", n, page)
	}
}
