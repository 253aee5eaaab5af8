package programme

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/live"
	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/virtual"
)

// bubblesEnv in the environment makes a program that calls Serve first play
// virtual time: bubbles hang on package testing, and a client that deadlocks ends
// the process.
const bubblesEnv = "HOLDFAST_LAB_BUBBLES"

// Serve does the work of a child process of the lab, if the program was started as
// one, and then returns true. Call it first in main or TestMain, with the catalog of
// the Plan.
func Serve(catalog subject.Catalog) bool {
	if text := os.Getenv(bubblesEnv); text != "" {
		if err := bubbles(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return true
	}
	return process.Serve(catalog) || live.Serve(catalog)
}

// bubbleTask is what a child is to play.
type bubbleTask struct {
	World  virtual.World `json:"world"`
	First  uint64        `json:"first"`
	Count  int           `json:"count"`
	For    time.Duration `json:"for"`
	Shrink time.Duration `json:"shrink"`
	Replay string        `json:"replay,omitempty"` // a file, in place of a campaign
}

// bubbleResult is a line from a child: how far it is, or the end.
type bubbleResult struct {
	Played  int              `json:"played"`
	Summary *virtual.Summary `json:"summary,omitempty"`
	Result  *virtual.Result  `json:"result,omitempty"` // of a replay
}

// bubbles is the child.
func bubbles(text string) error {
	var b bubbleTask
	if err := json.Unmarshal([]byte(text), &b); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout) // Bubbles takes os.Stdout for package testing
	if b.Replay != "" {
		r, played, err := virtual.Replay(b.Replay)
		if err != nil {
			return err
		}
		return out.Encode(bubbleResult{Played: played, Result: &r})
	}
	var s virtual.Summary
	err := virtual.Bubbles(func(t *testing.T) {
		s = virtual.Campaign{World: b.World, First: b.First, Count: b.Count, For: b.For, Workers: runtime.GOMAXPROCS(0), Enough: mostFiles,
			Progress: func(played int) { _ = out.Encode(bubbleResult{Played: played}) }}.Run(t)
		for i, r := range s.Failures {
			s.Failures[i] = virtual.Shrink(t, r, b.Shrink)
		}
	})
	if err != nil {
		return err
	}
	return out.Encode(bubbleResult{Played: s.Played, Summary: &s})
}

// child starts this program again to play b, and passes on its results.
func child(ctx context.Context, b bubbleTask, result func(bubbleResult)) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd, _, out, err := redistest.StartSelf(&stderr, bubblesEnv+"="+string(text))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<28) // failures come with their histories
	for lines.Scan() {
		var line bubbleResult
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			result(line)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("virtual time: %w: %.2000s", err, stderr.String())
	}
	return nil
}

// shrinkFor bounds the search for a shorter program that fails too.
const shrinkFor = 20 * time.Second

// virtual plays random programs in virtual time.
func (p Plan) virtual(ctx context.Context, v Virtual) Campaign {
	began := time.Now()
	c := Campaign{World: string(v.World), Subject: subjectOf(v.World), First: p.Seed, Last: p.Seed}
	err := child(ctx, bubbleTask{World: v.World, First: p.Seed, Count: v.Count, For: v.For, Shrink: shrinkFor}, func(line bubbleResult) {
		p.report(Event{Part: "virtual", Done: line.Played, Of: v.Count, Text: fmt.Sprintf("%s: %d programs", v.World, line.Played)})
		s := line.Summary
		if s == nil {
			return
		}
		c.Played, c.Grants, c.Virtual, c.Last = s.Played, s.Grants, s.Virtual, p.Seed+uint64(max(0, s.Played-1))
		c.Hollow = s.Hollow(v.World)
		for _, r := range s.Failures {
			c.Broken++
			c.how(r.Violations)
			p.keep(&c, r.Program.Seed, r.Save)
		}
	})
	if err != nil && ctx.Err() == nil {
		c.Errors = append(c.Errors, err.Error())
	}
	c.Took = time.Since(began)
	return c
}
