package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// readHistory reads the history in the stores. A cluster may take a moment to agree again on who its masters are.
func readHistory(ctx context.Context, urls []string, prefix string) (all []holdfast.HistoryEvent, err error) {
	c, end, err := openObserver(urls, prefix)
	if err != nil {
		return nil, err
	}
	defer end()
	for end := time.Now().Add(recheckTimeout); ; time.Sleep(100 * time.Millisecond) {
		all, err = nil, nil
		var event holdfast.HistoryEvent
		for event, err = range c.History(ctx, holdfast.HistoryQuery{}) {
			all = append(all, event)
		}
		if err == nil {
			return all, nil
		}
		if !errors.Is(err, holdfast.ErrUnavailable) || time.Now().After(end) {
			return nil, fmt.Errorf("history: %w", err)
		}
	}
}

// compareLog runs holdfast log --json, if the run has the program, and compares what it prints with the history. On a quorum two readers
// may read different nodes, whose times differ, so it is not run there. For other stores than Redis it would need a second program.
func (r *run) compareLog(ctx context.Context, events []holdfast.HistoryEvent) error {
	if r.command == "" || len(r.stores) > 1 || !strings.HasPrefix(r.stores[0].url, "redis://") {
		return nil
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.command, "log", "--json")
	cmd.Env = append(os.Environ(), "HOLDFAST_STORE="+r.stores[0].url, "HOLDFAST_PREFIX="+r.prefix)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("holdfast log: %w: %s", err, stderr.String())
	}
	var want, got []describe.JSONEvent
	for _, e := range events {
		want = append(want, describe.ToJSONEvent(e))
	}
	for lines := json.NewDecoder(&stdout); lines.More(); {
		var e describe.JSONEvent
		if err := lines.Decode(&e); err != nil {
			return fmt.Errorf("holdfast log: %w", err)
		}
		got = append(got, e)
	}
	if !reflect.DeepEqual(got, want) {
		r.violated("history", "", "holdfast log --json prints %d events; History has %d: %s", len(got), len(want), differing(got, want))
	}
	r.recorded.Lines += len(got)
	return nil
}

// differing describes the first difference.
func differing(got, want []describe.JSONEvent) string {
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			return fmt.Sprintf("event %d is %+v and %+v", i, got[i], want[i])
		}
	}
	return "one ends sooner"
}
