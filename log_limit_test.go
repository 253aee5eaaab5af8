package holdfast_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// A log at Info has the documented levels and attributes, and no holder ID.
func TestLogOfTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := newFlaky()
		c := newClient(t, e, holdfast.WithLogger(slog.New(slog.NewJSONHandler(&out, nil))))
		var ids []string
		lock := func(name string) *holdfast.Lease {
			l := mustLock(t, c.Mutex(name).Lock, context.Background())
			ids = append(ids, l.HolderID())
			return l
		}
		broken := lock("broken")
		lost := lock("lost")
		time.Sleep(6 * time.Second)
		if err := c.Break(context.Background(), "broken", broken.HolderID()); err != nil {
			t.Fatal(err)
		}
		e.out(down)
		_ = broken.Release(context.Background())
		<-lost.Done()
		time.Sleep(time.Minute) // the clean-ups fail
		l, err := c.Mutex("open", failOpen).Lock(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, l.HolderID())
		e.out(nil)
		ids = append(ids, failWithHeldErrors(t, c)...)
		_ = c.Close()
		synctest.Wait()

		seen := map[string]string{}
		for line := range strings.Lines(out.String()) {
			var record map[string]any
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatal(err)
			}
			message, level := record["msg"].(string), record["level"].(string)
			seen[message] = level
			for key := range record {
				if !slices.Contains([]string{"time", "level", "msg", "resource", "kind", "token", "left", "cause", "err", "slot", "ran", "waited", "held"}, key) {
					t.Errorf("attribute %s in %s", key, line)
				}
			}
			for _, id := range ids {
				if strings.Contains(line, id) {
					t.Errorf("a holder ID in %s", line)
				}
			}
		}
		if len(seen) != 7 {
			t.Errorf("messages %v", seen)
		}
		for message, level := range map[string]string{
			"holdfast: lease lost": "ERROR",
			"holdfast: renewal overdue; retrying until the trust window closes":          "WARN",
			"holdfast: a release was not confirmed; the lease or wait ends by its TTL":   "WARN",
			"holdfast: job slot not done":                                                "WARN",
			"holdfast: election term began":                                              "INFO",
			"holdfast: election term ended":                                              "INFO",
			"holdfast: the function of Lead returned an error after leadership was lost": "WARN",
		} {
			if seen[message] != level {
				t.Errorf("%q at level %q, want %s; all: %v", message, seen[message], level, seen)
			}
		}
	})
}

// failWithHeldErrors lets the functions of a job and of a lost election term return a HeldError. It
// returns the holder IDs.
func failWithHeldErrors(t *testing.T, c *holdfast.Client) (ids []string) {
	held := mustLock(t, c.Mutex("held").Lock, context.Background())
	ids = append(ids, held.HolderID())
	try := func() error {
		_, err := c.Mutex("held").TryLock(context.Background())
		if busy, ok := errors.AsType[*holdfast.HeldError](err); !ok || busy.HolderID != held.HolderID() {
			t.Errorf("got %v, want a HeldError of %s", err, held.HolderID())
		}
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = c.Job("job", holdfast.Every(2*time.Second)).Serve(ctx, func(context.Context) error { return try() })
	stop := errors.New("enough")
	terms := 0
	err := c.Election("election").Lead(context.Background(), "v", func(ctx context.Context) error {
		if terms++; terms > 1 {
			return stop
		}
		id := holdfast.LeaseFromContext(ctx).HolderID()
		ids = append(ids, id)
		if err := c.Break(context.Background(), "election", id); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		return try()
	})
	wantErr(t, err, stop)
	return ids
}
