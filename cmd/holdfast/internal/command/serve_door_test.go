package command

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the server lets in, by the address that it listens on and what it has for a secret.
func TestServeDoor(t *testing.T) {
	type request struct {
		host, user, secret, bearer string
		status                     int
	}
	for name, c := range map[string]struct {
		listen, auth string
		hosts        []string
		requests     []request
	}{
		"loopback": {"127.0.0.1:7380", "", nil, []request{
			{host: "127.0.0.1:7380", status: 200}, {host: "localhost:7380", status: 200}, {host: "LOCALHOST", status: 200}, {host: "[::1]:7380", status: 200}, {host: "127.0.0.2:1", status: 200},
			{host: "evil.example:7380", status: 421}, {host: "evil.example", status: 421}, {host: "localhost.evil.example", status: 421}, {host: "10.0.0.1:7380", status: 421}, {host: "", status: 421},
		}},
		"loopback behind a proxy": {"[::1]:7380", "t0ken", []string{"locks.example.com"}, []request{
			{host: "locks.example.com", bearer: "t0ken", status: 200}, {host: "Locks.Example.com:443", bearer: "t0ken", status: 200}, {host: "localhost:7380", bearer: "t0ken", status: 200},
			{host: "locks.example.com", status: 401}, {host: "evil.example", bearer: "t0ken", status: 421},
		}},
		"with a password": {"0.0.0.0:7380", "ops:se:cret", nil, []request{
			{host: "any", status: 401}, {host: "any", user: "ops", secret: "se:cret", status: 200}, {host: "any", user: "ops", secret: "se", status: 401},
			{host: "any", user: "other", secret: "se:cret", status: 401}, {host: "any", bearer: "se:cret", status: 401}, {host: "any", bearer: "ops:se:cret", status: 401},
		}},
		"with a token": {"10.0.0.1:7380", "t0ken", nil, []request{
			{host: "any", status: 401}, {host: "any", bearer: "t0ken", status: 200}, {host: "any", bearer: "t0ke", status: 401}, {host: "any", bearer: "t0ken ", status: 401},
			{host: "any", user: "whatever", secret: "t0ken", status: 200}, {host: "any", user: "t0ken", secret: "", status: 401},
		}},
		"loopback with a token": {"localhost:7380", "t0ken", nil, []request{{host: "localhost", status: 401}, {host: "localhost", bearer: "t0ken", status: 200}, {host: "evil.example", bearer: "t0ken", status: 421}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(authVar, c.auth)
			door, err := (&serveCmd{Listen: c.listen, Host: c.hosts}).door()
			if err != nil {
				t.Fatal(err)
			}
			door.inside = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			for _, r := range c.requests {
				sent := httptest.NewRequest(http.MethodGet, "/", nil)
				sent.Host = r.host
				if r.user != "" {
					sent.SetBasicAuth(r.user, r.secret)
				}
				if r.bearer != "" {
					sent.Header.Set("Authorization", "Bearer "+r.bearer)
				}
				w := httptest.NewRecorder()
				door.ServeHTTP(w, sent)
				if w.Code != r.status {
					t.Errorf("%+v: %d", r, w.Code)
				}
				if challenge := w.Header().Get("WWW-Authenticate"); (w.Code == 401) != strings.HasPrefix(challenge, "Basic ") {
					t.Errorf("%+v: challenge %q", r, challenge)
				}
			}
		})
	}
}

// What others reach, and a dashboard that breaks, need a secret, which is no argument.
func TestServeDoorRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmd  serveCmd
		auth string
		want string
	}{
		"all addresses": {serveCmd{Listen: ":7380"}, "", "not loopback"},
		"one address":   {serveCmd{Listen: "192.168.1.2:7380"}, "", "not loopback"},
		"a name":        {serveCmd{Listen: "example.com:7380"}, "", "not loopback"},
		"breaks":        {serveCmd{Listen: "127.0.0.1:7380", AllowBreak: true}, "", "--allow-break without a secret"},
		"a proxy":       {serveCmd{Listen: "127.0.0.1:7380", Host: []string{"locks.example.com"}}, "", "--host without a secret"},
		"no port":       {serveCmd{Listen: "127.0.0.1"}, "", "write an address and a port"},
		"no file":       {serveCmd{Listen: ":7380", AuthFile: empty + "x"}, "", "check --auth-file"},
		"empty file":    {serveCmd{Listen: ":7380", AuthFile: empty}, "a:b", "is empty"},
		"no password":   {serveCmd{Listen: ":7380"}, "ops:", "the user or the password is empty"},
		"no user":       {serveCmd{Listen: ":7380"}, ":secret", "the user or the password is empty"},
	} {
		t.Setenv(authVar, c.auth)
		if _, err := c.cmd.door(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if door, err := (&serveCmd{Listen: ":7380", AuthFile: token}).door(); err != nil || door.secret != "t0ken" || door.user != "" {
		t.Errorf("%+v, %v", door, err)
	}
}
