package command

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// authVar is the environment variable with what --auth-file has in a file.
const authVar = "HOLDFAST_SERVE_AUTH"

// serveDoor lets requests in: those for a name of this server, with the password or the token.
type serveDoor struct {
	inside http.Handler
	// hosts are the names under which the server is reached; nil: any. On loopback a page of
	// another site could otherwise reach it under its own name, by an answer of its DNS server.
	hosts []string
	// user and secret are what must be sent. Without a user it is a token; without a
	// secret nothing.
	user, secret string
}

// door returns what lets in the requests that the flags allow.
func (c *serveCmd) door() (*serveDoor, error) {
	auth := os.Getenv(authVar)
	if c.AuthFile != "" {
		data, err := os.ReadFile(c.AuthFile)
		if err != nil {
			return nil, fail(exitConfig, "%v; check --auth-file", err)
		}
		if auth = strings.TrimSpace(string(data)); auth == "" {
			return nil, fail(exitConfig, "%s is empty: write user:password or a token into it", c.AuthFile)
		}
	}
	d := &serveDoor{secret: auth}
	if user, password, ok := strings.Cut(auth, ":"); ok {
		d.user, d.secret = user, password
		if user == "" || password == "" {
			return nil, fail(exitConfig, "the user or the password is empty: write user:password or a token into --auth-file or %s", authVar)
		}
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fail(exitUsage, "--listen %s: write an address and a port, such as 127.0.0.1:7380", c.Listen)
	}
	local := isLoopback(host)
	if auth == "" {
		const set = "set a user:password or a token in --auth-file or " + authVar
		switch {
		case !local:
			return nil, fail(exitConfig, "%s is not loopback: others can reach it, so %s, or serve on 127.0.0.1", c.Listen, set)
		case c.AllowBreak:
			return nil, fail(exitConfig, "--allow-break without a secret: any user of this machine could break, so %s", set)
		case len(c.Host) > 0:
			return nil, fail(exitConfig, "--host without a secret: others can reach what is behind that name, so %s", set)
		}
	}
	if local || len(c.Host) > 0 {
		d.hosts = append([]string{}, c.Host...)
	}
	return d, nil
}

// isLoopback reports whether a host is this machine and no other.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// ServeHTTP implements http.Handler.
func (d *serveDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !d.named(r.Host):
		http.Error(w, "this server is not called that; see holdfast serve --host", http.StatusMisdirectedRequest)
	case !d.authentic(r):
		challenge := `Basic realm="holdfast", charset="UTF-8"`
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, "a password or a token is needed", http.StatusUnauthorized)
	default:
		d.inside.ServeHTTP(w, r)
	}
}

// named reports whether a Host header is a name of this server.
func (d *serveDoor) named(header string) bool {
	if d.hosts == nil {
		return true
	}
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.Trim(header, "[]")
	}
	return isLoopback(host) || slices.ContainsFunc(d.hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// authentic reports whether a request has the secret.
func (d *serveDoor) authentic(r *http.Request) bool {
	if d.secret == "" {
		return true
	}
	user, secret, ok := r.BasicAuth()
	if d.user == "" {
		if bearer, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); found {
			secret, ok = bearer, true
		}
		user = ""
	}
	// Of equal length, so that the comparison takes the same time.
	given, want := sha256.Sum256([]byte(user+"\x00"+secret)), sha256.Sum256([]byte(d.user+"\x00"+d.secret))
	return ok && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}
