// Package store turns the URL of a store, as users write it, into what talks to
// it: go-redis clients, and the engine on them. Several URLs are a quorum. Its
// errors say what to write instead and never show a password, nor any part of a
// URL that may hold one.
package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// Error is a URL that cannot be used. Its text says what to do.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

func errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

const forms = "write redis://[user:password@]host:port[/db], rediss://… for TLS, unix:///path[?db=N], " +
	"redis+sentinel://host:port,host:port/master[/db] or redis+cluster://host:port,host:port"

// Store is what the URLs name: one node, or the nodes of a quorum.
type Store struct{ nodes []*Node }

// Open returns the store of one URL, or of several with commas between them,
// which are a quorum. It does not connect. The caller closes it.
func Open(text string) (*Store, error) { return OpenTLS(text, TLS{}) }

// OpenTLS is Open with a configuration of TLS for those URLs that have none.
func OpenTLS(text string, t TLS) (*Store, error) {
	urls := Split(text)
	if len(urls) == 0 {
		return nil, errorf("the store's URL is empty: %s", forms)
	}
	s := &Store{}
	for i, u := range urls {
		n, err := openNode(u, t)
		if err != nil && len(urls) > 1 {
			err = errorf("URL %d of %d: %s", i+1, len(urls), err.Error())
		}
		if err == nil {
			err = s.add(n)
		}
		if err != nil {
			_ = s.Close() // nothing was sent
			return nil, err
		}
	}
	return s, nil
}

// add takes a node in, unless it is there already: one that is counted twice
// would be a majority by itself.
func (s *Store) add(n *Node) error {
	same := slices.IndexFunc(s.nodes, n.sameAs)
	s.nodes = append(s.nodes, n)
	if same >= 0 {
		return errorf("URLs %d and %d name the same node (%s): give nodes that are independent of each other, each once",
			same+1, len(s.nodes), n)
	}
	return nil
}

// Split cuts a list of URLs at the commas between them. A comma that no scheme
// follows belongs to the URL it stands in: several hosts of one store.
func Split(text string) []string {
	var urls []string
	for part := range strings.SplitSeq(text, ",") {
		if len(urls) > 0 && !strings.Contains(part, "://") {
			urls[len(urls)-1] += "," + part
			continue
		}
		if part = strings.TrimSpace(part); part != "" {
			urls = append(urls, part)
		}
	}
	return urls
}

// Nodes are what the URLs name, in their order; more than one is a quorum.
func (s *Store) Nodes() []*Node { return s.nodes }

// Engine returns a new engine on the store's clients.
func (s *Store) Engine() engine.Engine {
	engines := make([]engine.Engine, len(s.nodes))
	for i, n := range s.nodes {
		engines[i] = goredis.New(n.Client)
	}
	if len(engines) == 1 {
		return engines[0]
	}
	return quorum.New(engines...)
}

// Client is the client of the first node, for data that are not Holdfast's.
func (s *Store) Client() redis.UniversalClient { return s.nodes[0].Client }

// Close disconnects; engines on the store are of no use any more.
func (s *Store) Close() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Client.Close())
	}
	return errors.Join(errs...)
}

// String names the store for messages, without credentials.
func (s *Store) String() string {
	if len(s.nodes) == 1 {
		return s.nodes[0].String()
	}
	names := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		names[i] = n.Short()
	}
	return "the quorum of " + strings.Join(names, " and ")
}
