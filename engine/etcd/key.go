package etcd

import (
	"net/url"
	"strconv"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// A key is the namespace, the prefix, a letter, and the name, with a slash between them. Only the prefix
// is escaped, and has no slash, so that different keys stay different and those of one prefix are
// one range.

// inboxes is the letter of the keys that are messages.
const inboxes cas.Space = 'm'

// witnesses is the letter of the keys that vanish.
const witnesses cas.Space = 'w'

// folder returns what the keys of a space below a prefix begin with.
func (s *keyspace) folder(space cas.Space, prefix string) string {
	return s.namespace + url.PathEscape(prefix) + "/" + string(space) + "/"
}

func (s *keyspace) key(k cas.Key) string { return s.folder(k.Space, k.Prefix) + k.Name }

// inboxOf returns what the keys of the messages to an address begin with.
func (s *keyspace) inboxOf(to cas.Address) string {
	return s.folder(inboxes, to.Prefix) + url.PathEscape(to.Client) + "/"
}

// inboxKey returns the key of the nth letter to an address in one transaction, which can write a
// key only once.
func (s *keyspace) inboxKey(to cas.Address, n int) string { return s.inboxOf(to) + strconv.Itoa(n) }
