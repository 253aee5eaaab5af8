package store

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
)

// Cause implements Causer: it asks a single server.
func (n *RedisNode) Cause(ctx context.Context, text string) string {
	if n.Kind != Single {
		return ""
	}
	if strings.Contains(text, "READONLY") {
		return n.replicaOf(ctx)
	}
	if n.server.TLSConfig != nil && strings.Contains(text, context.DeadlineExceeded.Error()) && speaksPlainly(ctx, n.Addrs[0]) {
		return "the server does not speak TLS"
	}
	if c := n.server.TLSConfig; c != nil && len(c.Certificates) == 0 && isCutOff(text) && wantsCertificate(ctx, n.Addrs[0], c) {
		return "tls: certificate required"
	}
	return ""
}

// isCutOff reports whether a server has closed the connection.
func isCutOff(text string) bool {
	return strings.Contains(text, "connection reset") || strings.Contains(text, "broken pipe") || strings.Contains(text, "EOF")
}

// wantsCertificate reports whether a server refuses a client without a certificate. In TLS 1.3 the server does so after the
// handshake: a client that has sent a request by then may see no more than a connection that is reset.
func wantsCertificate(ctx context.Context, addr string, c *tls.Config) bool {
	conn, err := (&tls.Dialer{Config: c}).DialContext(ctx, "tcp", addr)
	if err == nil {
		defer conn.Close()
		if limit, ok := ctx.Deadline(); ok {
			_ = conn.SetDeadline(limit)
		}
		_, err = conn.Read(make([]byte, 1))
	}
	return err != nil && strings.Contains(err.Error(), "certificate required")
}

// replicaOf names the master of a replica.
func (n *RedisNode) replicaOf(ctx context.Context) string {
	c := n.Server(n.Addrs[0])
	defer c.Close()
	role, err := c.Do(ctx, "ROLE").Slice()
	if err != nil || len(role) < 3 || role[0] != "slave" {
		return "the server is a read-only replica"
	}
	return fmt.Sprintf("the server is a read-only replica of %v:%v", role[1], role[2])
}

// speaksPlainly reports whether a server answers without TLS.
func speaksPlainly(ctx context.Context, addr string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	if limit, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(limit)
	}
	var first [1]byte
	_, _ = io.WriteString(conn, "PING\r\n")
	_, err = io.ReadFull(conn, first[:])
	return err == nil && (first[0] == '+' || first[0] == '-')
}

// refusals are parts of the errors of a server if the user's credentials or rights are not
// enough. The last two are Redis's errors for a command in a script that the user may not
// run, up to version 7 and from version 8 on.
var refusals = []string{
	"NOAUTH", "WRONGPASS", "NOPERM", "AUTH", "DENIED Redis is running in protected mode", "invalid username-password", "invalid password",
	"The user executing the script can't", "ACL failure in script",
}

// RefusesUser reports whether an error of the store is about the user's credentials or
// rights.
func RefusesUser(text string) bool {
	for _, word := range refusals {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// Advise implements Node.
func (n *RedisNode) Advise(text string) Advice {
	if RefusesUser(text) {
		return Advice{Refused: true, Remedy: "give user and password in --store or HOLDFAST_STORE, and let the user run scripts and pub/sub on Holdfast's keys and channels"}
	}
	return adviceOn(text, map[string]string{
		"DB index is out of range":      "there is no such database: write a smaller number in the URL",
		"cluster support disabled":      "it is no cluster: write redis://host:port",
		"unknown command 'sentinel'":    "it is a Redis and no Sentinel: write redis://host:port",
		"the server expects TLS":        "write rediss:// in place of redis://",
		"the server does not speak TLS": "write redis:// in place of rediss://",
		"is a read-only replica":        "give the address of its master, or a redis+sentinel:// URL",
	})
}
