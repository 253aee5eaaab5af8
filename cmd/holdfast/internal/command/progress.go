package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
)

// On a terminal the status of a wait is drawn every drawEvery, and the store is read for it
// every readEvery. Elsewhere a line is printed every lineEvery, after a read.
const (
	drawEvery = time.Second
	readEvery = 3 * drawEvery
	lineEvery = time.Minute
)

// readEveryWaiter is the least time between two reads for each waiter in the queue. A read
// costs the store some microseconds per waiter, so all of them cost a bounded part of its time.
const readEveryWaiter = 60 * time.Millisecond

// progress reports a wait: position in the queue, holder of the resource, elapsed time.
type progress struct {
	c     *guarded
	s     *session
	say   *reporter
	names []string
	start time.Time
	live  bool // one line of the terminal, redrawn each time
	drawn bool
	// changes is set for a candidate of an election, which waits as long as the leader lives: only
	// another holder is reported, and an outage of the store. shown is what was reported last.
	changes bool
	shown   string
}

// look is the result of a read of the store.
type look struct {
	snap holdfast.Snapshot
	err  error
}

// reportWait reports the wait since start until stop is called or ctx ends.
func (c *guarded) reportWait(ctx context.Context, s *session, say *reporter, start time.Time) (stop func()) {
	if say.quiet && say.json == nil {
		return func() {}
	}
	p := c.progress(s, say, start)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.loop(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// progress returns the progress of a wait since start.
func (c *guarded) progress(s *session, say *reporter, start time.Time) *progress {
	p := &progress{c: c, s: s, say: say, names: c.resources(), start: start}
	p.live = !say.quiet && say.json == nil && canDraw(say.w)
	p.changes, p.shown = c.verb == "elect" && !p.live, c.shown
	return p
}

func (p *progress) loop(ctx context.Context) {
	reads := lineEvery
	if p.live {
		reads = readEvery
	}
	tick := time.NewTicker(p.every())
	defer tick.Stop()
	found := make(chan look, 1)
	var last *look
	var read time.Time
	for reading := false; ; {
		select {
		case <-ctx.Done():
			p.clear()
			return
		case l := <-found:
			last, reading = &l, false
			p.report(l)
		case <-tick.C:
			show := !p.live || p.c.foreground()
			if show && p.live && last != nil {
				p.report(*last)
			}
			if show && !reading && time.Since(read) >= max(reads-drawEvery/2, waiting(last)*readEveryWaiter) {
				reading, read = true, time.Now()
				go p.read(ctx, found) // not awaited: a call of go-redis does not end with ctx
			}
		}
	}
}

// every is the time between two reports.
func (p *progress) every() time.Duration {
	if p.live {
		return drawEvery
	}
	return lineEvery
}

// read reads the state of the resource; of several, that for which this process waits. If the
// store does not show that, it is the first that others hold.
func (p *progress) read(ctx context.Context, found chan<- look) {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var l look
	for _, name := range p.names {
		snap, err := p.s.Snapshot(ask, name)
		if err != nil || p.position(snap) > 0 {
			l = look{snap, err}
			break
		}
		if l.snap.Resource == "" || !p.ofOthers(l.snap) {
			l.snap = snap
		}
	}
	found <- l
}

// waiting is the number of waiters that a read has found.
func waiting(l *look) time.Duration {
	if l == nil {
		return 0
	}
	return time.Duration(len(l.snap.Waiters))
}

// report draws the status or prints a line.
func (p *progress) report(l look) {
	waited := time.Since(p.start)
	attrs := []slog.Attr{slog.Duration("waited", waited)}
	state, where, why := "away", "", fmt.Sprintf("the store (%s) does not answer", p.s.at)
	if l.err == nil {
		held := heldBy(l.snap)
		state = held.HolderID
		if n := p.position(l.snap); n > 0 {
			where = fmt.Sprintf(", position %d of %d", n, len(l.snap.Waiters))
			attrs = append(attrs, slog.Int("position", n))
		}
		why, attrs = p.c.heldText(held), append(attrs, p.c.heldAttrs(held)...)
	} else {
		attrs = append(attrs, slog.String("message", bare(l.err)))
	}
	text := fmt.Sprintf("waiting for %s%s: %s", waited.Truncate(time.Second), where, why)
	if p.live {
		p.draw(text)
		return
	}
	if p.changes && state == p.shown {
		return
	}
	p.shown = state
	p.say.notice("still-waiting", attrs, "%s", text)
}

// ofOthers reports whether other processes hold the resource.
func (p *progress) ofOthers(snap holdfast.Snapshot) bool {
	me := p.meta()
	return slices.ContainsFunc(snap.Holders, func(h holdfast.Holder) bool { return h.Host != me.Host || h.PID != me.PID })
}

// meta is what the store shows of this process.
func (p *progress) meta() holdfast.Meta {
	if p.c.verb == "acquire" {
		return callerMeta()
	}
	host, _ := os.Hostname()
	return holdfast.Meta{Host: host, PID: os.Getpid()}
}

// position returns the place of this process in the queue, from 1, or 0 if the snapshot does
// not show it: on a quorum, or with several waiters of one script.
func (p *progress) position(snap holdfast.Snapshot) int {
	me, place := p.meta(), 0
	for i, w := range snap.Waiters {
		switch {
		case w.Host != me.Host || w.PID != me.PID:
		case place > 0:
			return 0
		default:
			place = i + 1
		}
	}
	return place
}

// draw replaces the line. The terminal truncates a long line instead of wrapping it.
func (p *progress) draw(text string) {
	if !p.c.foreground() {
		return
	}
	p.drawn = true
	fmt.Fprintf(p.say.w, "\r\x1b[K\x1b[?7lholdfast: %s\x1b[?7h", text)
}

func (p *progress) clear() {
	if p.drawn && p.c.foreground() {
		fmt.Fprint(p.say.w, "\r\x1b[K")
	}
}

// canDraw reports whether w is the controlling terminal and supports control sequences.
func canDraw(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

// foreground reports whether this process is in the foreground job of the terminal.
func (c *guarded) foreground() bool {
	if c.job != nil {
		return c.job.Foreground()
	}
	front, err := unix.IoctlGetInt(int(os.Stderr.Fd()), unix.TIOCGPGRP)
	return err == nil && front == unix.Getpgrp()
}
