package zookeeper

import (
	"encoding/binary"
	"time"
)

// The value of a znode is a header and the document: a version, the document's revision, and
// for how long it is kept after it was written, in µs.
const (
	headerVersion = 1
	headerSize    = 1 + 8 + 8
)

// stored is a document as it is in its znode.
type stored struct {
	rev   uint64
	keep  time.Duration
	value []byte
	at    time.Time // when it was written, by the clock of the server that led; not in the value
}

func (d stored) encode() []byte {
	b := make([]byte, 0, headerSize+len(d.value))
	b = append(b, headerVersion)
	b = binary.BigEndian.AppendUint64(b, d.rev)
	b = binary.BigEndian.AppendUint64(b, uint64(d.keep.Microseconds()))
	return append(b, d.value...)
}

func decode(b []byte) (stored, bool) {
	if len(b) < headerSize || b[0] != headerVersion {
		return stored{}, false
	}
	return stored{
		rev:   binary.BigEndian.Uint64(b[1:]),
		keep:  time.Duration(binary.BigEndian.Uint64(b[9:])) * time.Microsecond,
		value: b[headerSize:],
	}, true
}
