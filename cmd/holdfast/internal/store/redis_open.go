package store

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dialTimeout bounds one attempt to connect, unless the URL has dial_timeout. It is short,
// since a person waits for the command.
const dialTimeout = 2 * time.Second

// Redis is the driver that every program links.
func Redis() Driver {
	return Driver{
		Name:    "Redis",
		Schemes: []string{"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"},
		Form:    redisForm,
		Open:    openRedis,
	}
}

const redisForm = "redis://[user:password@]host:port[/db], rediss://… for TLS, unix:///path[?db=N], " +
	"redis+sentinel://host:port,host:port/master[/db] or redis+cluster://host:port,host:port"

func openRedis(text string, t TLS) (Node, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	open := single
	switch base, topology, _ := strings.Cut(scheme, "+"); topology {
	case "sentinel":
		open = func(string, TLS) (*RedisNode, error) { return sentinel(base, rest, t) }
	case "cluster":
		open = func(string, TLS) (*RedisNode, error) { return cluster(base, rest, t) }
	}
	n, err := open(text, t)
	if err != nil {
		return nil, err // not an interface with a nil pointer
	}
	return n, nil
}

func single(text string, t TLS) (*RedisNode, error) {
	u, err := parse(text)
	if err != nil {
		return nil, err
	}
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, refused(u, err)
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	if err := t.Apply(o.TLSConfig, "write rediss:// in place of redis://"); err != nil {
		return nil, err
	}
	n := &RedisNode{Kind: Single, Addrs: []string{o.Addr}, DB: o.DB, server: *o}
	// A verb makes few calls, one after the other, so pipelines share their connection: another one
	// costs a handshake. Servers that announce maintenance are left to reconnects.
	o.PipelinePoolSize = cmp.Or(o.PipelinePoolSize, -1)
	o.DisableIdentity = true // CLIENT SETINFO, one more round trip
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	n.Client = redis.NewClient(o)
	return n, nil
}

// sentinel opens scheme://[user:password@]host:port,…/master[/db]. The user is that of
// the Redis servers; the parameters sentinel_username and sentinel_password are for the
// Sentinels.
func sentinel(scheme, rest string, t TLS) (*RedisNode, error) {
	u, err := severalHosts(scheme, rest)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if master == "" {
		return nil, Errorf("the Sentinel URL names no master: write redis+sentinel://host:port,host:port/MASTER[/db]")
	}
	user := u.User
	q := u.Query()
	sentinelUser, sentinelPassword := q.Get("sentinel_username"), q.Get("sentinel_password")
	q.Del("sentinel_username")
	q.Del("sentinel_password")
	q.Set("master_name", master)
	u.User, u.Path, u.RawQuery = nil, "/"+db, q.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, refused(u, err)
	}
	o.Username, o.SentinelUsername, o.SentinelPassword = user.Username(), sentinelUser, sentinelPassword
	o.Password, _ = user.Password()
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	dropServerName(o.TLSConfig)
	if err := t.Apply(o.TLSConfig, "write rediss:// in place of redis://"); err != nil {
		return nil, err
	}
	n := &RedisNode{Kind: Sentinel, Addrs: o.SentinelAddrs, Master: master, DB: o.DB}
	base := redis.Options{
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, TLSConfig: o.TLSConfig, Protocol: o.Protocol,
	}
	n.server, n.sentinel = base, base
	n.server.Username, n.server.Password, n.server.DB = o.Username, o.Password, o.DB
	n.sentinel.Username, n.sentinel.Password = o.SentinelUsername, o.SentinelPassword
	n.Client = redis.NewFailoverClient(o)
	return n, nil
}

// cluster opens scheme://[user:password@]host:port,….
func cluster(scheme, rest string, t TLS) (*RedisNode, error) {
	u, err := severalHosts(scheme, rest)
	if err != nil {
		return nil, err
	}
	if strings.Trim(u.Path, "/") != "" {
		return nil, Errorf("a cluster has no database numbers: end the URL after the last host")
	}
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, refused(u, err)
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	dropServerName(o.TLSConfig)
	if err := t.Apply(o.TLSConfig, "write rediss:// in place of redis://"); err != nil {
		return nil, err
	}
	n := &RedisNode{Kind: Cluster, Addrs: o.Addrs}
	n.server = redis.Options{
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, TLSConfig: o.TLSConfig,
		Protocol: o.Protocol, Username: o.Username, Password: o.Password,
	}
	n.Client = redis.NewClusterClient(o)
	return n, nil
}

// dropServerName makes TLS verify each server by its own name, not by that of the first
// host in the URL.
func dropServerName(c *tls.Config) {
	if c != nil {
		c.ServerName = ""
	}
}

// severalHosts parses a URL with a list of hosts into go-redis's form: the first
// host in its place, the others as the parameter addr.
func severalHosts(scheme, rest string) (*url.URL, error) {
	u, hosts, err := ParseURL(scheme+"://"+rest, redisForm)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	for _, h := range hosts[1:] {
		q.Add("addr", h)
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// parse parses a URL with one host, or with the path of a socket.
func parse(text string) (*url.URL, error) {
	if !strings.HasPrefix(text, "unix:") {
		u, _, err := ParseURL(text, redisForm)
		return u, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, unreadable(redisForm)
	}
	if u.Hostname() != "" || strings.Trim(u.Path, "/") == "" {
		return nil, Errorf("the store's URL names no host: write %s", redisForm)
	}
	return u, nil
}

// refused returns the error for a URL that go-redis does not accept.
func refused(u *url.URL, err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return unreadable(redisForm) // the error quotes the URL
	}
	return RefusedURL(u, strings.TrimPrefix(err.Error(), "redis: "), redisForm)
}
