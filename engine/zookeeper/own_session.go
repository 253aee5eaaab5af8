package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// ownSession is a session of the engine's own on the server of the caller's connection, which is left to its timeout.
// Package zk closes its sessions or keeps them alive, so this speaks the protocol of ZooKeeper itself, of
// which it needs three requests.
type ownSession struct {
	conn    net.Conn
	timeout time.Duration // as the server has set it
	release func() bool   // of the ctx
	xid     int32
}

const (
	opCreate = 1
	opAuth   = 100
	authXid  = -4
	// longestReply bounds the replies to these requests, which contain at most a path.
	longestReply = 64 << 10
)

// openSession opens a session, with the credentials of WithAuth. It lasts for its timeout, which the server
// may have made shorter, from the last request on.
func (s *store) openSession(ctx context.Context, timeout time.Duration) (*ownSession, error) {
	limit := callTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline))
	}
	conn, err := s.dialUntil(ctx, limit)
	if err != nil {
		return nil, err
	}
	own := &ownSession{conn: conn, release: context.AfterFunc(ctx, func() { _ = conn.Close() })}
	if err := own.handshake(timeout, limit); err != nil {
		own.cut()
		return nil, err
	}
	for _, a := range s.credentials {
		if err := own.authenticate(a); err != nil {
			own.cut()
			return nil, err
		}
	}
	return own, nil
}

// dialUntil connects to the server of the caller's connection. If ctx ends before, the dialer, which has none, goes on for its limit.
func (s *store) dialUntil(ctx context.Context, limit time.Duration) (net.Conn, error) {
	type dialed struct {
		conn net.Conn
		err  error
	}
	done := make(chan dialed)
	go func() {
		conn, err := s.dial("tcp", s.conn.Server(), limit)
		select {
		case done <- dialed{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case d := <-done:
		return d.conn, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// cut closes the connection, not the session.
func (n *ownSession) cut() {
	n.release()
	_ = n.conn.Close()
}

func (n *ownSession) handshake(timeout, limit time.Duration) error {
	if err := n.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	ms := min(int64((timeout+time.Millisecond-1)/time.Millisecond), math.MaxInt32)
	var b []byte
	b = binary.BigEndian.AppendUint32(b, 0) // version of the protocol
	b = binary.BigEndian.AppendUint64(b, 0) // no transaction was seen
	b = binary.BigEndian.AppendUint32(b, uint32(ms))
	b = binary.BigEndian.AppendUint64(b, 0) // a new session
	b = appendBuffer(b, make([]byte, 16))   // without a password
	reply, err := n.exchange(b)
	if err != nil {
		return err
	}
	if len(reply) < 16 {
		return fmt.Errorf("zookeeper: a session was answered by %d bytes", len(reply))
	}
	if id := binary.BigEndian.Uint64(reply[8:]); id == 0 {
		return zk.ErrSessionExpired
	}
	n.timeout = time.Duration(int32(binary.BigEndian.Uint32(reply[4:]))) * time.Millisecond
	return nil
}

// createEphemeral makes a znode that vanishes with the session.
func (n *ownSession) createEphemeral(path string, acl []zk.ACL) error {
	b := appendBuffer(nil, []byte(path))
	b = appendBuffer(b, nil) // no data
	b = binary.BigEndian.AppendUint32(b, uint32(len(acl)))
	for _, a := range acl {
		b = binary.BigEndian.AppendUint32(b, uint32(a.Perms))
		b = appendBuffer(appendBuffer(b, []byte(a.Scheme)), []byte(a.ID))
	}
	b = binary.BigEndian.AppendUint32(b, zk.FlagEphemeral)
	n.xid++
	return n.request(n.xid, opCreate, b)
}

func (n *ownSession) authenticate(c credentials) error {
	b := binary.BigEndian.AppendUint32(nil, 0)
	b = appendBuffer(appendBuffer(b, []byte(c.scheme)), c.auth)
	return n.request(authXid, opAuth, b)
}

// request makes a request and returns the error in its reply.
func (n *ownSession) request(xid int32, op uint32, body []byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	reply, err := n.exchange(append(binary.BigEndian.AppendUint32(b, op), body...))
	if err != nil {
		return err
	}
	if len(reply) < 16 || int32(binary.BigEndian.Uint32(reply)) != xid {
		return fmt.Errorf("zookeeper: request %d of a session was answered by %.16x", xid, reply)
	}
	switch code := zk.ErrCode(int32(binary.BigEndian.Uint32(reply[12:]))); code {
	case 0:
		return nil
	case -101:
		return zk.ErrNoNode
	case -102:
		return zk.ErrNoAuth
	case -114:
		return zk.ErrInvalidACL
	case -115:
		return zk.ErrAuthFailed
	default:
		return fmt.Errorf("zookeeper: a request of a session failed with code %d", code)
	}
}

// exchange sends a packet and returns the next one.
func (n *ownSession) exchange(b []byte) ([]byte, error) {
	if _, err := n.conn.Write(appendBuffer(nil, b)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(n.conn, size[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(size[:])
	if length > longestReply {
		return nil, errors.New("zookeeper: the server of a session does not speak the protocol of ZooKeeper")
	}
	reply := make([]byte, length)
	_, err := io.ReadFull(n.conn, reply)
	return reply, err
}

func appendBuffer(b, content []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(content))), content...)
}
