package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// pingEvery is how long the listening connection may be silent before it is checked, and
	// pingTimeout how long it may take to respond.
	pingEvery   = 2 * time.Second
	pingTimeout = 2 * time.Second
	// probeTimeout is how long a notification of the engine to itself may take, and probeEvery
	// how often it sends one. It costs the server a notification to all that listen.
	probeTimeout = 2 * time.Second
	probeEvery   = time.Minute
	// resyncEvery is how often listeners look themselves where notifications do not arrive.
	resyncEvery = time.Second
	// The pause before the connection is opened again grows from the first to the second.
	firstPause, longestPause = 50 * time.Millisecond, 5 * time.Second
)

// notifications is the connection that listens, one for all listeners of an engine. Its
// goroutine runs while there are listeners.
type notifications struct {
	documents *documents
	own       string // the channel of probes

	mu        sync.Mutex
	listeners map[string]map[*channelListener]bool // by channel
	running   bool
	changed   chan struct{}      // has an element if listeners changed since the connection looked
	interrupt context.CancelFunc // ends the present wait of the connection
	probed    string             // the last probe that arrived
	deafUntil time.Time          // notifications do not arrive here; try again then
}

func newNotifications(s *documents) *notifications {
	return &notifications{
		documents: s, own: "holdfast1_" + strings.ToLower(rand.Text()),
		listeners: make(map[string]map[*channelListener]bool), changed: make(chan struct{}, 1), interrupt: func() {},
	}
}

// add makes a listener known.
func (n *notifications) add(r *channelListener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[r.channel] == nil {
		n.listeners[r.channel] = make(map[*channelListener]bool)
	}
	n.listeners[r.channel][r] = true
	n.signal()
	if !n.running {
		n.running = true
		go n.run()
	}
}

func (n *notifications) remove(r *channelListener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.listeners[r.channel], r)
	if len(n.listeners[r.channel]) == 0 {
		delete(n.listeners, r.channel)
	}
	n.signal()
}

// signal makes the goroutine look at the listeners. The caller holds the mutex.
func (n *notifications) signal() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
	n.interrupt()
}

// ended reports whether there are no listeners: the goroutine returns then.
func (n *notifications) ended() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = len(n.listeners) > 0
	return !n.running
}

// each calls f for all listeners, or for those of a channel.
func (n *notifications) each(channel string, f func(*channelListener)) {
	n.mu.Lock()
	var all []*channelListener
	for ch, rs := range n.listeners {
		if channel != "" && ch != channel {
			continue
		}
		for r := range rs {
			all = append(all, r)
		}
	}
	n.mu.Unlock()
	for _, r := range all {
		f(r)
	}
}

// run listens, and opens the connection again after a loss, until there are no listeners.
func (n *notifications) run() {
	pause := firstPause
	for !n.ended() {
		if n.documents.noListen || time.Now().Before(n.deafUntil) {
			n.poll()
			continue
		}
		opened := time.Now()
		err := n.listen()
		if err == nil {
			continue
		}
		if errors.Is(err, errDeaf) {
			n.deafUntil = time.Now().Add(probeEvery)
			continue
		}
		n.each("", func(r *channelListener) { r.fail(failure(err, n.documents.options)) })
		if time.Since(opened) > longestPause {
			pause = firstPause
		}
		n.wait(pause)
		pause = min(2*pause, longestPause)
	}
}

// wait returns after a time, or when listeners have changed.
func (n *notifications) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.changed:
	}
}

// poll makes all listeners look themselves, and waits for the next time.
func (n *notifications) poll() {
	n.each("", func(r *channelListener) {
		r.ready()
		r.resynchronize()
	})
	timer := time.NewTimer(resyncEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-n.changed:
			n.each("", func(r *channelListener) { r.ready() })
			if n.none() {
				return
			}
		}
	}
}

func (n *notifications) none() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.listeners) == 0
}

// errDeaf: the connection works, and notifications do not arrive on it.
var errDeaf = errors.New("postgres: notifications do not arrive")

// listening is one connection that listens.
type listening struct {
	*notifications
	conn     *pgx.Conn
	channels map[string]bool
	heard    time.Time // when the server last responded

	probe   string        // the one under way, or ""
	sent    chan struct{} // gets an element when the server has it
	overdue time.Time     // when it should have arrived; zero until it is sent
	next    time.Time     // when the next one is sent
}

// listen opens a connection and receives on it, until there are no listeners or it fails.
func (n *notifications) listen() error {
	l := &listening{notifications: n, channels: make(map[string]bool), sent: make(chan struct{}, 1)}
	config := n.documents.connections.config
	if direct := n.documents.listenAs; direct != nil {
		config = direct.Config()
	}
	conn, err := connect(context.Background(), config, n.receive)
	if err != nil {
		return err
	}
	defer (&connection{pgx: conn}).close()
	l.conn, l.heard = conn, time.Now()
	for {
		wait, stop := context.WithCancel(context.Background())
		n.mu.Lock()
		n.interrupt = stop
		n.mu.Unlock()
		err := l.step(wait)
		stop()
		if err != nil || n.none() {
			return err
		}
	}
}

// step subscribes to what is new, and waits for a notification until ctx ends or something is due.
func (l *listening) step(ctx context.Context) error {
	if err := l.subscribe(); err != nil {
		return err
	}
	now := time.Now()
	if l.probe == "" && !now.Before(l.next) {
		l.sendProbe()
	}
	due := l.heard.Add(pingEvery)
	if l.probe != "" { // otherwise a late word that one was sent counts for nothing
		select {
		case <-l.sent:
			l.overdue = now.Add(probeTimeout)
		default:
		}
		switch {
		case l.arrived():
			l.probe, l.overdue = "", time.Time{}
		case l.overdue.IsZero():
		case now.After(l.overdue):
			if err := l.exec("-- ping", pingTimeout); err != nil {
				return err
			}
			return errDeaf
		default:
			due = l.overdue
		}
	}
	wait, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	err := l.conn.PgConn().WaitForNotification(wait)
	if err == nil {
		l.heard = time.Now()
		return nil
	}
	if l.conn.IsClosed() {
		return err
	}
	if time.Now().Before(due) || !l.overdue.IsZero() {
		return nil // interrupted, or a probe is overdue
	}
	return l.exec("-- ping", pingTimeout)
}

// exec runs SQL on the connection. A pooler may deliver with its reply what it would not deliver
// otherwise, so a probe begins anew.
func (l *listening) exec(sql string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := l.conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return err
	}
	l.heard = time.Now()
	if l.probe != "" {
		l.probe, l.overdue, l.next = "", time.Time{}, l.heard
	}
	return nil
}

// subscribe makes the channels of the connection those of the listeners, which are live then.
func (l *listening) subscribe() error {
	var all []*channelListener
	wanted := map[string]bool{l.own: true}
	select {
	case <-l.changed:
	default:
	}
	l.each("", func(r *channelListener) {
		wanted[r.channel] = true
		all = append(all, r)
	})
	var sql strings.Builder
	for ch := range wanted {
		if !l.channels[ch] {
			fmt.Fprintf(&sql, "LISTEN %s;", ch)
		}
	}
	for ch := range l.channels {
		if !wanted[ch] {
			fmt.Fprintf(&sql, "UNLISTEN %s;", ch)
		}
	}
	first := len(l.channels) == 0
	if sql.Len() > 0 { // else there may be a further stream of a channel
		if err := l.exec(sql.String(), connectTimeout); err != nil {
			return err
		}
	}
	l.channels = wanted
	for _, r := range all {
		if !r.ready() && first {
			r.resynchronize() // since the last connection, messages may be lost
		}
	}
	return nil
}

// sendProbe sends a notification to this connection by another one.
func (l *listening) sendProbe() {
	l.probe, l.next = rand.Text(), time.Now().Add(probeEvery)
	select {
	case <-l.sent: // by an earlier one
	default:
	}
	probe := l.probe
	go func() {
		if l.documents.notify([][]byte{textsArg([]string{l.own}), textsArg([]string{probe})}) == nil {
			select {
			case l.sent <- struct{}{}:
			default:
			}
			l.mu.Lock()
			l.interrupt()
			l.mu.Unlock()
		}
	}()
}

func (l *listening) arrived() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.probed == l.probe
}

// receive takes a notification.
func (n *notifications) receive(m *pgconn.Notification) {
	if m.Channel == n.own {
		n.mu.Lock()
		n.probed = m.Payload
		n.mu.Unlock()
		return
	}
	n.each(m.Channel, func(r *channelListener) { r.message([]byte(m.Payload)) })
}
