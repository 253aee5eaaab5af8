package store

import (
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// TLS configures the connections of URLs that use TLS.
type TLS struct {
	CACert     string // file of the CAs that sign the servers' certificates; default: the system's
	Cert, Key  string // files of the client's certificate and of its key
	ServerName string // name in the servers' certificates; default: the host of the URL
	Insecure   bool   // accepts every certificate
}

// parameters takes the parameters of TLS out of a URL. Each one replaces its field.
func (t TLS) parameters(text string) (TLS, string, error) {
	base, query, _ := strings.Cut(text, "?")
	q, err := url.ParseQuery(query)
	if err != nil || query == "" {
		return t, text, nil // the parser of the URL reports it
	}
	for name, field := range map[string]*string{"cacert": &t.CACert, "cert": &t.Cert, "key": &t.Key, "tls_server_name": &t.ServerName} {
		if q.Has(name) {
			*field = q.Get(name)
			q.Del(name)
		}
	}
	if q.Has("insecure") {
		if t.Insecure, err = strconv.ParseBool(q.Get("insecure")); err != nil {
			return t, text, Errorf("the store's URL has insecure=%q: write insecure=true or insecure=false", q.Get("insecure"))
		}
		q.Del("insecure")
	}
	if len(q) > 0 {
		base += "?" + q.Encode()
	}
	return t, base, nil
}

// Apply sets up c, which is nil if the URL does not use TLS. remedy says how to write one that
// does.
func (t TLS) Apply(c *tls.Config, remedy string) error {
	if t == (TLS{}) {
		return nil
	}
	if c == nil {
		return Errorf("TLS is configured, but the store's URL does not use it: %s", remedy)
	}
	if t.CACert != "" {
		text, err := os.ReadFile(t.CACert)
		if err != nil {
			return Errorf("read the CA's certificate: %v; give a PEM file with --cacert", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return Errorf("%s has no certificate: give a PEM file with --cacert", t.CACert)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return Errorf("a client certificate needs its key: give both --cert and --key")
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return Errorf("read the client's certificate: %v; give PEM files with --cert and --key", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	c.InsecureSkipVerify = c.InsecureSkipVerify || t.Insecure
	return nil
}

// WithPassword returns the URLs with the password, but for those that have one.
func WithPassword(text, password string) string {
	urls := Split(text)
	for i, u := range urls {
		scheme, rest, _ := strings.Cut(u, "://")
		user, host, ok := strings.Cut(rest, "@")
		if !ok {
			user, host = "", rest
		}
		if !strings.Contains(user, ":") {
			urls[i] = scheme + "://" + user + url.UserPassword("", password).String() + "@" + host
		}
	}
	return strings.Join(urls, ",")
}

// WithoutPassword returns the URLs without users and passwords.
func WithoutPassword(text string) string {
	urls := Split(text)
	for i, u := range urls {
		scheme, rest, ok := strings.Cut(u, "://")
		if !ok {
			scheme = "redis" // any part of such a text may be a password
		}
		rest, query, _ := strings.Cut(rest[strings.LastIndex(rest, "@")+1:], "?")
		var kept []string
		for p := range strings.SplitSeq(query, "&") {
			if p != "" && !strings.Contains(p, "password") {
				kept = append(kept, p)
			}
		}
		if len(kept) > 0 {
			rest += "?" + strings.Join(kept, "&")
		}
		urls[i] = scheme + "://" + rest
	}
	return strings.Join(urls, ",")
}
