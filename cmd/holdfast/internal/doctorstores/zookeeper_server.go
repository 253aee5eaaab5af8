package doctorstores

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// wordLimit bounds a four letter word.
const wordLimit = 2 * time.Second

// zkServer is one server, as its four letter words show it.
type zkServer struct {
	diagnosis.Place
	trouble error             // it does not answer
	hidden  bool              // it refuses srvr
	idle    bool              // it answers, and serves no clients: it has no majority
	srvr    map[string]string // nil: see above
	conf    map[string]string // empty: it is refused
	mntr    map[string]string // empty: it is refused
}

func (s *zkServer) ask(ctx context.Context) {
	text, err := s.word(ctx, "srvr")
	switch {
	case err != nil:
		s.trouble = err
		return
	case strings.Contains(text, "not currently serving"):
		s.idle = true
	case strings.Contains(text, "not in the whitelist"):
		s.hidden = true
	default:
		s.srvr = pairs(text, ":")
	}
	if text, err = s.word(ctx, "conf"); err == nil {
		s.conf = pairs(text, "=")
	}
	s.askMetrics(ctx)
}

func (s *zkServer) askMetrics(ctx context.Context) {
	s.mntr = nil
	if text, err := s.word(ctx, "mntr"); err == nil {
		s.mntr = pairs(text, "\t")
	}
}

var errNoText = errors.New("it ends the connection without an answer: is this ZooKeeper, and without TLS?")

// word returns the reply to a four letter word.
func (s *zkServer) word(ctx context.Context, word string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, wordLimit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", string(s.Place))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(word)); err != nil {
		return "", err
	}
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(conn, most))
	if len(text) == 0 {
		if err == nil {
			err = errNoText
		}
		return "", err
	}
	return string(text), nil
}

// pairs returns the lines that have a name and a value.
func pairs(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, separator); ok {
			all[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return all
}

// number returns a value of conf or mntr as a number, or -1.
func (s *zkServer) number(from map[string]string, name string) float64 {
	n, err := strconv.ParseFloat(from[name], 64)
	if err != nil {
		return -1
	}
	return n
}
