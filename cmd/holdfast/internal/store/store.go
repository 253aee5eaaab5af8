// Package store turns the URL of a store, as users write it, into an engine on
// it, and for Redis into go-redis clients. Several URLs are a quorum, also of
// different stores. Its errors say what to write instead and never show a
// password, nor any part of a URL that may hold one.
//
// The drivers besides that of Redis are handed to an Opener, so that a program
// links only those that it needs.
package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// Error is a URL that cannot be used. Its text says what to do.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// Errorf returns an *Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Store is what the URLs name: one node, or the nodes of a quorum.
type Store struct{ nodes []Node }

// Opener opens stores. The zero Opener opens Redis.
type Opener struct {
	TLS     TLS      // for those URLs that have none
	Drivers []Driver // besides that of Redis
}

// Open returns the store of one URL, or of several with commas between them,
// which are a quorum. It does not connect. The caller closes it.
func (o Opener) Open(text string) (*Store, error) {
	urls := Split(text)
	if len(urls) == 0 {
		return nil, Errorf("the store's URL is empty: write %s", o.forms())
	}
	// All schemes come first: what looks like several URLs can be one whose password has a raw comma, and then no
	// part of it may be in the error of a driver.
	drivers := make([]Driver, len(urls))
	for i, u := range urls {
		var err error
		if drivers[i], err = o.driver(u); err != nil {
			return nil, inList(err, i, urls)
		}
	}
	s := &Store{}
	for i, u := range urls {
		n, err := o.openNode(drivers[i], u)
		err = inList(err, i, urls)
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

// inList returns the error of URL i, which names the URL if there are several.
func inList(err error, i int, urls []string) error {
	if err == nil || len(urls) == 1 {
		return err
	}
	return Errorf("URL %d of %d: %s", i+1, len(urls), err.Error())
}

func (o Opener) openNode(d Driver, text string) (Node, error) {
	if endsLate(text) {
		return nil, unreadable(d.Form)
	}
	t, text, err := o.TLS.parameters(text)
	if err != nil {
		return nil, err
	}
	return d.Open(text, t)
}

// driver returns the driver for the scheme of a URL.
func (o Opener) driver(text string) (Driver, error) {
	scheme, _, ok := strings.Cut(text, "://")
	if !ok {
		return Driver{}, Errorf("the store's URL has no scheme: write %s", o.forms())
	}
	drivers := o.drivers()
	if i := slices.IndexFunc(drivers, func(d Driver) bool { return d.Opens(scheme) }); i >= 0 {
		return drivers[i], nil
	}
	if d := o.Unlinked(text); d != nil {
		return Driver{}, Errorf("this program cannot open %s, which needs %s", d.Name, Program)
	}
	return Driver{}, Errorf("the store's URL has an unknown scheme: write %s", o.forms())
}

// Program is the name of the program that has all drivers.
const Program = "holdfast-stores"

// Unlinked returns the driver of the first URL that only Program can open, or nil.
func (o Opener) Unlinked(text string) *Driver {
	for _, u := range Split(text) {
		scheme, _, _ := strings.Cut(u, "://")
		has := func(d Driver) bool { return d.Opens(scheme) }
		all := Elsewhere()
		if i := slices.IndexFunc(all, has); i >= 0 && !slices.ContainsFunc(o.drivers(), has) {
			return &all[i]
		}
	}
	return nil
}

func (o Opener) drivers() []Driver { return append([]Driver{Redis()}, o.Drivers...) }

// forms lists how URLs are written.
func (o Opener) forms() string {
	forms := []string{Redis().Form}
	for _, d := range Elsewhere() {
		forms = append(forms, d.Form)
	}
	return strings.Join(forms, "; or ")
}

// add takes a node in, unless it is there already: one that is counted twice
// would be a majority by itself.
func (s *Store) add(n Node) error {
	servers := n.Servers()
	same := slices.IndexFunc(s.nodes, func(o Node) bool {
		return slices.ContainsFunc(o.Servers(), func(server string) bool { return slices.Contains(servers, server) })
	})
	s.nodes = append(s.nodes, n)
	if same >= 0 {
		return Errorf("URLs %d and %d name the same node (%s): give nodes that are independent of each other, each once",
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

// Of returns the store of one node.
func Of(n Node) *Store { return &Store{nodes: []Node{n}} }

// Nodes are what the URLs name, in their order; more than one is a quorum.
func (s *Store) Nodes() []Node { return s.nodes }

// Engine returns a new engine on the store's connections.
func (s *Store) Engine() engine.Engine {
	engines := make([]engine.Engine, len(s.nodes))
	for i, n := range s.nodes {
		engines[i] = n.Engine()
	}
	if len(engines) == 1 {
		return engines[0]
	}
	return quorum.New(engines...)
}

// Client is the client of the first node, for data that are not Holdfast's; nil if that is
// no Redis.
func (s *Store) Client() redis.UniversalClient {
	if n, ok := s.nodes[0].(*RedisNode); ok {
		return n.Client
	}
	return nil
}

// Cause returns why a store of one node gave no useful answer, if that can be found out, or "".
// The text is that of the error.
func (s *Store) Cause(ctx context.Context, text string) string {
	if c, ok := s.nodes[0].(Causer); ok && len(s.nodes) == 1 {
		return c.Cause(ctx, text)
	}
	return ""
}

// Advise returns what to do about an error of the store, by its text, or a zero Advice.
func (s *Store) Advise(text string) Advice {
	for _, n := range s.nodes {
		if a := n.Advise(text); a != (Advice{}) {
			if len(s.nodes) > 1 {
				a.Found = "" // the text is of several nodes
			}
			return a
		}
	}
	return adviceOn(text, map[string]string{
		"unknown authority":                     "give the CA that signed the certificate of the server with --cacert",
		"x509: certificate is ":                 "give a name that is in the certificate with --tls-server-name",
		"x509: cannot validate certificate for": "give a name that is in the certificate with --tls-server-name",
		"certificate required":                  "give a client certificate with --cert and --key",
	})
}

// adviceOn returns the remedy whose sign is in a text, or a zero Advice.
func adviceOn(text string, remedies map[string]string) Advice {
	for sign, remedy := range remedies {
		if strings.Contains(text, sign) {
			return Advice{Remedy: remedy}
		}
	}
	return Advice{}
}

// Close disconnects; engines on the store are of no use any more.
func (s *Store) Close() error {
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.Close())
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
