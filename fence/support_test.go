package fence_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const stock = "stock:42"

func openRedis(t *testing.T) (*redistest.Server, *redis.Client) {
	t.Helper()
	s := redistest.Start(t)
	return s, s.Client()
}

func requireNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// requireStale also checks the fields of the error.
func requireStale(t *testing.T, err error, token, newest uint64) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) {
		t.Fatalf("got %v, want ErrStale", err)
	}
	if stale.Token != token || stale.Newest != newest {
		t.Fatalf("got %v, want token %d refused for %d", err, token, newest)
	}
}

func requireIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
}
