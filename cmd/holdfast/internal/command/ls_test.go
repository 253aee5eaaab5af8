package command

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// Each line of ls --json is written before the next resource is read.
func TestListIsStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(lines)
		s := &session{Client: client(t, listing{memory.New(), written}, "holdfast ls")}
		c := &lsCmd{JSON: true, selection: selection{Pattern: "*"}}
		if err := c.look(t.Context(), &env{stdout: written}, s); err != nil {
			t.Error(err)
		}
	})
}

// lines receives each write.
type lines chan []byte

func (l lines) Write(p []byte) (int, error) { l <- p; return len(p), nil }

// listing is a store with three resources. It returns the next one when the line of the last has been written: if that
// waits for the list to end, both wait.
type listing struct {
	engine.Engine
	written lines
}

func (e listing) List(context.Context, string, string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		for _, name := range []string{"a", "b", "c"} {
			line := make(chan struct{})
			go func() {
				<-e.written
				close(line)
			}()
			if !yield(engine.Snapshot{Resource: engine.Resource{Name: name}, Kind: engine.KindMutex}, nil) {
				return
			}
			<-line
		}
	}
}
