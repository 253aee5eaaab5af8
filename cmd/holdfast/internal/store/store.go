// Package store turns the URL of a store, as users write it, into a go-redis
// client. Its errors say what to write instead and never show a password, nor
// any part of a URL that may hold one.
package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialTimeout is how long one try to connect may take, unless the URL says
// otherwise (dial_timeout): a person waits for the command.
const dialTimeout = 2 * time.Second

// Error is a URL that cannot be used. Its text says what to do.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

func errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

const forms = "write redis://[user:password@]host:port[/db], rediss://… for TLS, " +
	"redis+sentinel://host:port,host:port/master[/db] or redis+cluster://host:port,host:port"

// Open returns a client for the URL; it does not connect. The caller closes it.
func Open(text string) (redis.UniversalClient, error) {
	urls := Split(text)
	switch len(urls) {
	case 0:
		return nil, errorf("the store's URL is empty: %s", forms)
	case 1:
	default:
		return nil, errorf("%d store URLs are a quorum, which this version of the command does not have: give one URL", len(urls))
	}
	scheme, rest, ok := strings.Cut(urls[0], "://")
	if !ok {
		return nil, errorf("the store's URL has no scheme: %s", forms)
	}
	switch scheme {
	case "redis", "rediss":
		return single(urls[0])
	case "redis+sentinel", "rediss+sentinel":
		return sentinel(strings.TrimSuffix(scheme, "+sentinel"), rest)
	case "redis+cluster", "rediss+cluster":
		return cluster(strings.TrimSuffix(scheme, "+cluster"), rest)
	}
	return nil, errorf("the store's URL has an unknown scheme: %s", forms)
}

// Split cuts a list of URLs at the commas between them. A comma that no scheme
// follows belongs to the URL it stands in: several hosts of one store.
func Split(text string) []string {
	var urls []string
	for part := range strings.SplitSeq(text, ",") {
		if len(urls) > 0 && !strings.Contains(part, "://") {
			urls[len(urls)-1] += "," + part
			continue
		}
		if part = strings.TrimSpace(part); part != "" {
			urls = append(urls, part)
		}
	}
	return urls
}

func single(text string) (redis.UniversalClient, error) {
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
	return redis.NewClient(o), nil
}

// sentinel opens scheme://[user:password@]host:port,…/master[/db]. The user is
// the one of the Redis nodes; the sentinels' own come as sentinel_username and
// sentinel_password after the question mark.
func sentinel(scheme, rest string) (redis.UniversalClient, error) {
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
	return redis.NewFailoverClient(o), nil
}

// cluster opens scheme://[user:password@]host:port,….
func cluster(scheme, rest string) (redis.UniversalClient, error) {
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
	return redis.NewClusterClient(o), nil
}

// dropServerName lets every node be checked against its own name, not against
// that of the first host in the URL.
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

// parse parses a URL with one host. What url.Parse says is not shown: it quotes
// the URL, and a badly quoted password can be taken for any part of one.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errorf("the store's URL cannot be read (it is not shown, since it may hold a password): %s; "+
			"write special characters of a password as %%XX", forms)
	}
	if u.Hostname() == "" {
		return nil, errorf("the store's URL names no host: %s", forms)
	}
	return u, nil
}

// refused words what go-redis said of a URL; it is shown only if no part of the
// URL can be a misplaced password.
func refused(u *url.URL, err error) error {
	if strings.Contains(u.Path+u.RawQuery, "@") || errors.As(err, new(*url.Error)) {
		return errorf("the store's URL cannot be read: write special characters of a password as %%XX; %s", forms)
	}
	return errorf("the store's URL is wrong after the host: %s; %s", strings.TrimPrefix(err.Error(), "redis: "), forms)
}

// Describe names the store of a client for messages, without credentials.
func Describe(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		if o.Addr == "FailoverClient" {
			return "the master that Sentinel names"
		}
		return fmt.Sprintf("%s, database %d", o.Addr, o.DB)
	case *redis.ClusterClient:
		return "the cluster at " + strings.Join(c.Options().Addrs, ", ")
	}
	return "the store"
}
