package store

import (
	"context"
	"crypto/tls"
	"net/http/httptest"
	"testing"
	"time"
)

// A server that wants a client certificate may reset the connection before its reason is read.
func TestCauseOfAResetConnection(t *testing.T) {
	for _, auth := range []tls.ClientAuthType{tls.RequireAnyClientCert, tls.NoClientCert} {
		server := httptest.NewUnstartedServer(nil)
		server.TLS = &tls.Config{ClientAuth: auth}
		server.StartTLS()
		defer server.Close()
		want := ""
		if auth == tls.RequireAnyClientCert {
			want = "tls: certificate required"
		}
		n := node(t, "rediss://"+server.Listener.Addr().String()+"?insecure=true")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if got := n.Cause(ctx, "write: connection reset by peer"); got != want {
			t.Errorf("Cause is %q, want %q", got, want)
		}
	}
}
