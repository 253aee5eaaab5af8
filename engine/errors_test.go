package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

func TestEndedErrorIsErrEnded(t *testing.T) {
	err := fmt.Errorf("acquire: %w", &engine.EndedError{Cause: engine.CauseBroken})
	var ended *engine.EndedError
	if !errors.Is(err, engine.ErrEnded) || !errors.As(err, &ended) || ended.Cause != engine.CauseBroken {
		t.Errorf("got %v", err)
	}
	if errors.Is(err, engine.ErrUnavailable) {
		t.Error("it is another error as well")
	}
}

// Every value has a text of its own, also a value that is not defined.
func TestWords(t *testing.T) {
	seen := map[string]bool{}
	for c := engine.CauseExpired; c <= engine.CauseReleased; c++ {
		seen[c.String()] = true
	}
	for s := engine.Granted; s <= engine.Marked; s++ {
		seen[s.String()] = true
	}
	if len(seen) != 10 || seen["status?"] || seen["unknown cause"] {
		t.Errorf("got %v, want five causes and five statuses", seen)
	}
	if engine.Cause(0).String() != "unknown cause" || engine.Status(0).String() != "status?" {
		t.Error("a zero value has words")
	}
}
