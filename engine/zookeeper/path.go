package zookeeper

import (
	"hash/fnv"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// shards is the number of znodes among which the documents of a prefix are divided: the children
// of one are listed in one reply, of which 1 MB is the most.
const shards = 64

// path returns the znode of a document.
func (s *store) path(k cas.Key) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k.Name)) // never fails
	shard := strconv.FormatUint(uint64(h.Sum32()%shards), 16)
	return path.Join(s.folder(k.Space, k.Prefix), shard, escape(k.Name))
}

// folder returns the znode whose children are the shards of a prefix.
func (s *store) folder(space cas.Space, prefix string) string {
	return path.Join(s.root, string(rune(space)), escape(prefix))
}

// inboxPath returns the znode of a slot of an address.
func (s *store) inboxPath(to cas.Address, slot int) string {
	return path.Join(s.root, "inbox", escape(to.Prefix), escape(to.Client)+"-"+strconv.Itoa(slot))
}

// revisionPath returns the child of a document's znode that exists as long as the document has
// this revision.
func revisionPath(doc string, rev uint64) string {
	return path.Join(doc, strconv.FormatUint(rev, 16))
}

// escape returns the name of a znode for any string, another one for each: neither empty nor
// relative, and without a slash or control characters.
func escape(s string) string {
	s = url.PathEscape(s)
	switch {
	case s == "":
		return "%"
	case s[0] == '.':
		return "%2E" + s[1:]
	}
	return s
}

// unescape returns the string that was escaped. ok is false if the znode is not the engine's.
func unescape(name string) (s string, ok bool) {
	if name == "%" {
		return "", true
	}
	s, err := url.PathUnescape(name)
	return s, err == nil && escape(s) == name
}

// above returns the path of the parent, or "" if it is the top.
func above(p string) string {
	return p[:strings.LastIndexByte(p, '/')]
}
