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

func openNode(text string, t TLS) (*Node, error) {
	t, text, err := t.parameters(text)
	if err != nil {
		return nil, err
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, errorf("the store's URL has no scheme: %s", forms)
	}
	switch scheme {
	case "redis", "rediss", "unix":
		return single(text, t)
	case "redis+sentinel", "rediss+sentinel":
		return sentinel(strings.TrimSuffix(scheme, "+sentinel"), rest, t)
	case "redis+cluster", "rediss+cluster":
		return cluster(strings.TrimSuffix(scheme, "+cluster"), rest, t)
	}
	return nil, errorf("the store's URL has an unknown scheme: %s", forms)
}

func single(text string, t TLS) (*Node, error) {
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
	if err := t.apply(o.TLSConfig); err != nil {
		return nil, err
	}
	n := &Node{Kind: Single, Addrs: []string{o.Addr}, DB: o.DB, server: *o}
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
func sentinel(scheme, rest string, t TLS) (*Node, error) {
	u, err := severalHosts(scheme, rest)
	if err != nil {
		return nil, err
	}
	master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if master == "" {
		return nil, errorf("the Sentinel URL names no master: write redis+sentinel://host:port,host:port/MASTER[/db]")
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
	if err := t.apply(o.TLSConfig); err != nil {
		return nil, err
	}
	n := &Node{Kind: Sentinel, Addrs: o.SentinelAddrs, Master: master, DB: o.DB}
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
func cluster(scheme, rest string, t TLS) (*Node, error) {
	u, err := severalHosts(scheme, rest)
	if err != nil {
		return nil, err
	}
	if strings.Trim(u.Path, "/") != "" {
		return nil, errorf("a cluster has no database numbers: end the URL after the last host")
	}
	o, err := redis.ParseClusterURL(u.String())
	if err != nil {
		return nil, refused(u, err)
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	dropServerName(o.TLSConfig)
	if err := t.apply(o.TLSConfig); err != nil {
		return nil, err
	}
	n := &Node{Kind: Cluster, Addrs: o.Addrs}
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
	cut := strings.IndexAny(rest, "/?#")
	if cut < 0 {
		cut = len(rest)
	}
	authority, tail := rest[:cut], rest[cut:]
	user := ""
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	hosts := strings.Split(authority, ",")
	u, err := parse(scheme + "://" + user + strings.TrimSpace(hosts[0]) + tail)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	for _, h := range hosts[1:] {
		h = strings.TrimSpace(h)
		if h == "" {
			return nil, errorf("the store's URL has an empty host between its commas: %s", forms)
		}
		q.Add("addr", h)
	}
	u.RawQuery = q.Encode()
	return u, nil
}

// parse parses a URL with one host. The error of url.Parse is not shown: it quotes the
// URL, and any part of that can be a badly quoted password.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errorf("the store's URL cannot be read (it is not shown, since it may hold a password): %s; "+
			"write special characters of a password as %%XX", forms)
	}
	if u.Scheme == "unix" && u.Hostname() == "" && strings.Trim(u.Path, "/") != "" {
		return u, nil
	}
	if u.Scheme == "unix" || u.Hostname() == "" {
		return nil, errorf("the store's URL names no host: %s", forms)
	}
	return u, nil
}

// refused returns the error for a URL that go-redis does not accept. go-redis's own text is
// in it only if no part of the URL can be a misplaced password.
func refused(u *url.URL, err error) error {
	if strings.Contains(u.Path+u.RawQuery, "@") || errors.As(err, new(*url.Error)) {
		return errorf("the store's URL cannot be read: write special characters of a password as %%XX; %s", forms)
	}
	return errorf("the store's URL is wrong after the host: %s; %s", strings.TrimPrefix(err.Error(), "redis: "), forms)
}
