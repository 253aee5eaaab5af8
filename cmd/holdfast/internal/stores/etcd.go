package stores

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
)

// etcdNode is an etcd.
type etcdNode struct {
	location
	client    *clientv3.Client
	namespace string
	secure    *tls.Config // nil: without TLS
}

// openEtcd opens etcd://[user:password@]host:port,…. Parameters are tls=true and namespace=TEXT.
func openEtcd(text string, t store.TLS) (store.Node, error) {
	form := formOf("etcd")
	u, hosts, err := store.ParseURL(text, form)
	if err != nil {
		return nil, err
	}
	if strings.Trim(u.Path, "/") != "" {
		return nil, store.Errorf("the store's URL has a path: end it after the last host, or write ?namespace=TEXT")
	}
	n := &etcdNode{location: location{kind: "etcd", hosts: withPort(hosts, "2379")}, namespace: "holdfast/"}
	q := u.Query()
	secure := t != (store.TLS{})
	if q.Has("tls") {
		if secure, err = strconv.ParseBool(q.Get("tls")); err != nil {
			return nil, store.Errorf("the store's URL has tls=%q: write tls=true or tls=false", q.Get("tls"))
		}
		q.Del("tls")
	}
	if q.Has("namespace") {
		n.namespace = q.Get("namespace")
		q.Del("namespace")
	}
	if err := noMore(u, q, "etcd"); err != nil {
		return nil, err
	}
	c := clientv3.Config{
		Endpoints: n.hosts, Logger: zap.NewNop(), DialTimeout: dialTimeout,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	}
	if secure {
		c.TLS = &tls.Config{}
	}
	if err := t.Apply(c.TLS, "omit tls=false"); err != nil {
		return nil, err
	}
	if t.ServerName != "" && !t.Insecure {
		verifyName(c.TLS)
	}
	n.secure = c.TLS
	password, _ := u.User.Password()
	if u.User != nil {
		// With a user, New would connect, and fail while etcd is away. With a token it does not;
		// etcd refuses this one, and then the client gets one for the user.
		c.Token = "none"
	}
	if n.client, err = clientv3.New(c); err != nil {
		return nil, store.RefusedURL(u, err.Error(), form)
	}
	if u.User != nil {
		n.client.Token, n.client.Username, n.client.Password = "", u.User.Username(), password
	}
	return n, nil
}

// verifyName makes c verify its own ServerName: gRPC replaces that by the address.
func verifyName(c *tls.Config) {
	name, roots := c.ServerName, c.RootCAs
	c.InsecureSkipVerify = true // VerifyConnection verifies
	c.VerifyConnection = func(state tls.ConnectionState) error {
		others := x509.NewCertPool()
		for _, cert := range state.PeerCertificates[1:] {
			others.AddCert(cert)
		}
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: others})
		return err
	}
}

// Engine implements store.Node.
func (n *etcdNode) Engine() engine.Engine { return etcd.New(n.client, etcd.WithNamespace(n.namespace)) }

// RoundTrip implements store.Node: a linearizable read.
func (n *etcdNode) RoundTrip(ctx context.Context, prefix string) error {
	_, err := n.client.Get(ctx, n.namespace+prefix+"/bench")
	return err
}

// Cause implements store.Causer: clientv3 does not say why it has no connection, so the
// first member is tried.
func (n *etcdNode) Cause(ctx context.Context, _ string) string {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.hosts[0])
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	config := &tls.Config{InsecureSkipVerify: true} // nothing is sent, and nothing is read
	if n.secure != nil {
		if config = n.secure.Clone(); config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(n.hosts[0])
		}
	}
	err = tls.Client(conn, config).HandshakeContext(ctx)
	switch {
	case n.secure == nil && err == nil:
		return "the server expects TLS"
	case n.secure != nil && errors.Is(err, io.EOF):
		return "the server does not speak TLS"
	case n.secure != nil && err != nil:
		return err.Error()
	}
	return ""
}

// Advise implements store.Node.
func (n *etcdNode) Advise(text string) store.Advice {
	switch {
	case strings.Contains(text, "etcdserver: permission denied"):
		return store.Advice{Refused: true, Remedy: "grant the user readwrite on the keys of the locks"}
	case strings.Contains(text, "etcdserver: user name is empty"), strings.Contains(text, "etcdserver: authentication failed"), strings.Contains(text, "etcdserver: user name not found"):
		return store.Advice{Refused: true, Remedy: "give user and password in --store or HOLDFAST_STORE"}
	case strings.Contains(text, "the server expects TLS"):
		return store.Advice{Remedy: "give the CA with --cacert, or write ?tls=true"}
	case strings.Contains(text, "the server does not speak TLS"):
		return store.Advice{Remedy: "omit the flags of TLS"}
	}
	return store.Advice{}
}

// Close implements store.Node.
func (n *etcdNode) Close() error { return n.client.Close() }
