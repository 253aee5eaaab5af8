package store

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
)

// Cause returns why a store of one server gave no useful answer, if that server
// shows it, or "". The text is that of the error.
func (s *Store) Cause(ctx context.Context, text string) string {
	n := s.nodes[0]
	if len(s.nodes) > 1 || n.Kind != Single {
		return ""
	}
	if strings.Contains(text, "READONLY") {
		return n.replicaOf(ctx)
	}
	if n.server.TLSConfig != nil && strings.Contains(text, context.DeadlineExceeded.Error()) && speaksPlainly(ctx, n.Addrs[0]) {
		return "the server does not speak TLS"
	}
	return ""
}

// replicaOf names the master of a replica.
func (n *Node) replicaOf(ctx context.Context) string {
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
