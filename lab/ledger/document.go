package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// document is what a document says of the leases of its resource. No bytes are an empty document. The format:
//
//	byte     2
//	8 bytes  the time to forget it, big-endian
//	n        clients: ID, name, host, signed process ID
//	n        stamps, one for each lease and a number for each; none if the leases end at instants of the store's clock
//	         for each stamp: for how long it is known to have been there
//	n        witnesses: name; if there are any, for each stamp: 0, or the number of its witness and a time
//	byte     1, or 2 if a tombstone has a reason
//	         kind, capacity, first token, last token, signed time of the mark, a lease, the turn that was called
//	n        leases: ID, weight, token, signed time of the grant, signed deadline, reason, byte 1 if it is breaking
//	n        waiters: ID, place, weight, signed TTL, tokens to reserve, signed time of its mark, signed time of its arrival, reason
//	n        tombstones: ID, byte of the cause, signed time of its end, with version 2 the reason
//
// Numbers are varints of encoding/binary. Before elements is their number, before a text its length. Times are in
// microseconds, since 1970 if they are instants. With stamps the deadline of a lease is its TTL.
type document struct {
	last    uint64 // the highest token given or reserved
	leases  []documentLease
	stamped bool // the deadlines are TTLs
	expired map[string]bool
}

// documentLease is a lease in a document.
type documentLease struct {
	holder   string
	token    uint64
	stamp    uint64
	deadline time.Duration // an instant since 1970 or, with a stamp, the TTL
	breaking bool
}

// The versions of the formats, and the cause of a tombstone of a lease whose time was over.
const (
	documentFormat = 2
	plainFormat    = 1
	reasonsFormat  = 2
	expiredCause   = 1
)

var errDocument = errors.New("this is no document")

// readDocument returns the document in a value of a store.
func readDocument(value []byte) (d document, err error) {
	if len(value) == 0 {
		return document{}, nil
	}
	f := fields{rest: value}
	f.is("the version of the document", f.byte(), documentFormat)
	f.bytes(8) // the time to forget it
	for range f.count() {
		f.text() // ID
		f.text() // name
		f.text() // host
		f.signed()
	}
	var stamps []uint64
	for range f.count() {
		stamps = append(stamps, f.number())
	}
	f.witnessed(len(stamps))
	format := f.byte()
	f.is("the version of the queue", format, plainFormat, reasonsFormat)
	f.text()   // kind
	f.number() // capacity
	f.number() // first token
	d.last = f.number()
	f.signed() // mark
	f.lease()  // the newest
	f.text()   // called
	for range f.count() {
		d.leases = append(d.leases, f.lease())
	}
	for range f.count() {
		f.waiter()
	}
	d.expired = map[string]bool{}
	for range f.count() {
		holder, cause := f.text(), f.byte()
		f.signed() // until
		if format == reasonsFormat {
			f.text()
		}
		if cause == expiredCause {
			d.expired[holder] = true
		}
	}
	if f.err == nil && len(f.rest) > 0 {
		f.err = fmt.Errorf("%w: %d bytes follow it", errDocument, len(f.rest))
	}
	if d.stamped = len(stamps) > 0; d.stamped && f.err == nil && len(stamps) != len(d.leases) {
		f.err = fmt.Errorf("%w: it has %d stamps of %d leases", errDocument, len(stamps), len(d.leases))
	}
	if f.err != nil {
		return document{}, f.err
	}
	for i := range stamps {
		d.leases[i].stamp = stamps[i]
	}
	return d, nil
}

// fields reads what a document consists of. After an error it returns zero values.
type fields struct {
	rest []byte
	err  error
}

// witnessed skips what is known of stamps.
func (f *fields) witnessed(stamps int) {
	for range stamps {
		f.number() // for how long it has been there
	}
	witnesses := f.count()
	for range witnesses {
		f.text()
	}
	for range stamps {
		if witnesses > 0 && f.number() > 0 {
			f.number()
		}
	}
}

func (f *fields) lease() (l documentLease) {
	l.holder = f.text()
	f.number() // weight
	l.token = f.number()
	f.signed() // since
	l.deadline = time.Duration(f.signed()) * time.Microsecond
	f.text() // reason
	l.breaking = f.byte() == 1
	return l
}

func (f *fields) waiter() {
	f.text()   // ID
	f.number() // place
	f.number() // weight
	f.signed() // TTL
	f.number() // reserve
	f.signed() // mark
	f.signed() // since
	f.text()   // reason
}

// is checks a byte.
func (f *fields) is(what string, b byte, want ...byte) {
	for _, w := range want {
		if b == w {
			return
		}
	}
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s is %d", errDocument, what, b)
	}
}

// bytes reads n bytes.
func (f *fields) bytes(n int) []byte {
	if f.err == nil && (n < 0 || n > len(f.rest)) {
		f.err = fmt.Errorf("%w: it is cut off", errDocument)
	}
	if f.err != nil {
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) byte() byte {
	if b := f.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (f *fields) text() string { return string(f.bytes(f.count())) }

// count reads a number of elements or bytes, of which each takes a byte at least.
func (f *fields) count() int {
	n := f.number()
	if f.err == nil && n > uint64(len(f.rest)) {
		f.err = fmt.Errorf("%w: it is cut off", errDocument)
	}
	if f.err != nil {
		return 0
	}
	return int(n)
}

func (f *fields) number() uint64 {
	n, size := binary.Uvarint(f.rest)
	if f.taken(size) {
		return n
	}
	return 0
}

func (f *fields) signed() int64 {
	n, size := binary.Varint(f.rest)
	if f.taken(size) {
		return n
	}
	return 0
}

// taken skips a number of a size, which is not positive if there is none.
func (f *fields) taken(size int) bool {
	if f.err == nil && size <= 0 {
		f.err = fmt.Errorf("%w: a number is cut off or too large", errDocument)
	}
	if f.err != nil {
		return false
	}
	f.rest = f.rest[size:]
	return true
}
