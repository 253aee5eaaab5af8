package store

import (
	"net/url"
	"strings"
)

// ParseURL parses the URL of a store with one host, or with several separated by commas, of which
// the first one is that of the result. form is how such URLs are written.
//
// The error of url.Parse is not shown: it quotes the URL, and any part of that can be a badly
// quoted password.
func ParseURL(text, form string) (u *url.URL, hosts []string, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	cut := strings.IndexAny(rest, "/?#")
	if cut < 0 {
		cut = len(rest)
	}
	authority, tail := rest[:cut], rest[cut:]
	user := ""
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	for host := range strings.SplitSeq(authority, ",") {
		u, err := url.Parse(scheme + "://" + user + strings.TrimSpace(host) + tail)
		switch {
		case err != nil:
			return nil, nil, unreadable(form)
		case u.Hostname() == "" && strings.Contains(authority, ","):
			return nil, nil, Errorf("the store's URL has an empty host between its commas: write %s", form)
		case u.Hostname() == "":
			return nil, nil, Errorf("the store's URL names no host: write %s", form)
		}
		hosts = append(hosts, u.Host)
	}
	u, err = url.Parse(scheme + "://" + user + hosts[0] + tail)
	return u, hosts, err
}

// endsLate reports whether the user and password of a URL may end behind what is read as its host: a raw / or ? or # in one of them
// ends that part.
func endsLate(text string) bool {
	_, rest, _ := strings.Cut(text, "://")
	cut, at := strings.IndexAny(rest, "/?#"), strings.LastIndex(rest, "@")
	return 0 <= cut && cut < at && strings.Contains(rest[:at], ":")
}

func unreadable(form string) error {
	return Errorf("the store's URL cannot be read (it is not shown, since it may hold a password): write %s; "+
		"write special characters of a password as %%XX", form)
}

// misplaced reports whether a part behind the host may have the rest of a password.
func misplaced(tail string) bool { return strings.Contains(tail, "@") || strings.Contains(tail, "%40") }

// RefusedURL returns the error for a URL that a driver does not accept. The driver's reason
// is in it only if no part of the URL can be a misplaced password.
func RefusedURL(u *url.URL, reason, form string) error {
	if misplaced(u.Path + u.RawQuery) {
		return unreadable(form)
	}
	return Errorf("the store's URL is wrong after the host: %s; write %s", reason, form)
}
