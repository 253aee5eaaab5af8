package sqltable

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// Key returns the value of the column that identifies a document. It consists of the space, the
// length of the prefix in two bytes, the prefix and the name.
func Key(k cas.Key) []byte {
	return append(keyPrefix(k.Space, k.Prefix), k.Name...)
}

// Name returns the name in a key.
func Name(key []byte) (string, error) {
	const head = 3
	if len(key) >= head {
		if from := head + int(binary.BigEndian.Uint16(key[1:])); from <= len(key) {
			return string(key[from:]), nil
		}
	}
	return "", fmt.Errorf("%q is not the key of a document", key)
}

// Bounds returns the bounds of the keys of a kind below a prefix: at least from and
// less than to.
func Bounds(space cas.Space, prefix string) (from, to []byte) {
	from, to = keyPrefix(space, prefix), keyPrefix(space, prefix)
	to[len(to)-1]++ // never of 0xff: it is of UTF-8, or the length 0
	return from, to
}

// Recipient returns the value of the column that identifies the client that a message is for.
func Recipient(a cas.Address) []byte {
	return Key(cas.Key{Space: cas.Clients, Prefix: a.Prefix, Name: a.Client})
}

func keyPrefix(space cas.Space, prefix string) []byte {
	b := append(make([]byte, 0, 64), byte(space))
	b = binary.BigEndian.AppendUint16(b, uint16(len(prefix)))
	return append(b, prefix...)
}
