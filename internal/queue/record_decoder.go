package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// The first byte of an encoded record. A record in which no break has a reason has the first
// version, so that programs that know no other can read it.
const (
	encodingPlain   = 1
	encodingReasons = 2 // each tombstone also has its reason
)

// maxEncodedCount bounds a capacity or a weight in an encoded record.
const maxEncodedCount = math.MaxInt32

// errEncoding is wrapped by every error of DecodeRecord.
var errEncoding = errors.New("queue: this is not an encoded record")

// AppendRecord appends the encoding of a record to b and returns the result. The encoding is
// canonical: equal records have equal encodings, and DecodeRecord accepts no other bytes. It
// contains neither Forget nor the time of the latest poll of a waiter, which change whenever a
// waiter polls, nor Swept. Whoever stores the encoding keeps what it needs of them elsewhere.
//
// Numbers are varints as in encoding/binary, instants in microseconds, strings have their length
// in front of them.
func AppendRecord(b []byte, s Record) []byte {
	version := encodingVersion(s)
	b = append(b, version)
	b = appendString(b, s.Kind)
	b = binary.AppendUvarint(b, uint64(s.Capacity))
	b = binary.AppendUvarint(b, s.Birth)
	b = binary.AppendUvarint(b, s.Last)
	b = binary.AppendVarint(b, s.Marked)
	b = appendHolder(b, s.Newest)
	b = appendString(b, s.Called)
	b = binary.AppendUvarint(b, uint64(len(s.Holders)))
	for _, h := range s.Holders {
		b = appendHolder(b, h)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Waiters)))
	for _, w := range s.Waiters {
		b = appendWaiter(b, w)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Ended)))
	for _, e := range s.Ended {
		b = appendString(b, e.ID)
		b = append(b, byte(e.Cause))
		b = binary.AppendVarint(b, e.Until)
		if version == encodingReasons {
			b = appendString(b, e.Reason)
		}
	}
	return b
}

func encodingVersion(s Record) byte {
	if slices.ContainsFunc(s.Ended, func(e Tombstone) bool { return e.Reason != "" }) {
		return encodingReasons
	}
	return encodingPlain
}

func appendHolder(b []byte, h Holder) []byte {
	b = appendString(b, h.ID)
	b = binary.AppendUvarint(b, uint64(h.Weight))
	b = binary.AppendUvarint(b, h.Token)
	b = binary.AppendVarint(b, h.Since)
	b = binary.AppendVarint(b, h.Deadline)
	b = appendString(b, h.Reason)
	if h.Breaking {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendWaiter(b []byte, w Waiter) []byte {
	b = appendString(b, w.ID)
	b = binary.AppendUvarint(b, w.Place)
	b = binary.AppendUvarint(b, uint64(w.Weight))
	b = binary.AppendVarint(b, w.TTL)
	b = binary.AppendUvarint(b, w.Reserve)
	b = binary.AppendVarint(b, w.Mark)
	b = binary.AppendVarint(b, w.Since)
	return appendString(b, w.Reason)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// DecodeRecord returns the record that AppendRecord encoded. It returns an error for any other
// bytes, and for a state that no queue can have, such as one with two parties of one ID.
func DecodeRecord(b []byte) (Record, error) {
	d := decoder{rest: b}
	version := d.byte()
	if d.err == nil && version != encodingPlain && version != encodingReasons {
		return Record{}, fmt.Errorf("%w: its version is %d, and this program reads versions %d and %d", errEncoding, version, encodingPlain, encodingReasons)
	}
	s := Record{Kind: d.string(), Capacity: d.count(), Birth: d.uvarint(), Last: d.uvarint(), Marked: d.varint()}
	s.Newest = d.holder()
	s.Called = d.string()
	parties := make(map[string]bool)
	for range d.length() {
		h := d.holder()
		d.check(!parties[h.ID], "two parties have one ID")
		d.check(len(s.Holders) == 0 || h.Token > s.Holders[len(s.Holders)-1].Token, "holders are not in the order of their tokens")
		d.check(h.Token <= s.Last, "a token is above the last")
		parties[h.ID] = true
		s.Holders = append(s.Holders, h)
	}
	for range d.length() {
		w := d.waiter()
		d.check(!parties[w.ID], "two parties have one ID")
		d.check(len(s.Waiters) == 0 || !w.before(&s.Waiters[len(s.Waiters)-1]), "turns are not in the order of their places")
		parties[w.ID] = true
		s.Waiters = append(s.Waiters, w)
	}
	for range d.length() {
		e := Tombstone{ID: d.string(), Cause: Cause(d.byte()), Until: d.varint()}
		if version == encodingReasons {
			e.Reason = d.string()
		}
		d.check(len(s.Ended) == 0 || e.ID > s.Ended[len(s.Ended)-1].ID, "tombstones are not in the order of their IDs")
		d.check(e.Cause >= Expired && e.Cause <= Released, "there is no such cause")
		s.Ended = append(s.Ended, e)
	}
	d.check(len(d.rest) == 0, "it is too long")
	d.check(version == encodingVersion(s), "its version is not the lowest")
	if d.err != nil {
		return Record{}, d.err
	}
	return s, nil
}

// decoder reads an encoding from the front. After the first error it returns zero values.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) check(ok bool, what string) {
	if !ok && d.err == nil {
		d.err = fmt.Errorf("%w: %s", errEncoding, what)
	}
	if d.err != nil {
		d.rest = nil
	}
}

func (d *decoder) byte() byte {
	d.check(len(d.rest) > 0, "it is too short")
	if d.err != nil {
		return 0
	}
	v := d.rest[0]
	d.rest = d.rest[1:]
	return v
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.check(n > 0, "a number is cut off or too large")
	if d.err != nil {
		return 0
	}
	d.check(n == 1 || d.rest[n-1] != 0, "a number is longer than it needs to be")
	if d.err != nil {
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// varint undoes the zigzag of binary.AppendVarint.
func (d *decoder) varint() int64 {
	u := d.uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

func (d *decoder) count() int {
	v := d.uvarint()
	d.check(v <= maxEncodedCount, "a count is too large")
	if d.err != nil {
		return 0
	}
	return int(v)
}

// length returns a number of elements, each of which takes at least a byte.
func (d *decoder) length() int {
	v := d.uvarint()
	d.check(v <= uint64(len(d.rest)), "it is too short")
	if d.err != nil {
		return 0
	}
	return int(v)
}

func (d *decoder) string() string {
	n := d.length()
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) bool() bool {
	v := d.byte()
	d.check(v <= 1, "a flag is neither 0 nor 1")
	return v == 1
}

func (d *decoder) holder() Holder {
	return Holder{
		ID: d.string(), Weight: d.count(), Token: d.uvarint(), Since: d.varint(), Deadline: d.varint(),
		Reason: d.string(), Breaking: d.bool(),
	}
}

func (d *decoder) waiter() Waiter {
	return Waiter{
		ID: d.string(), Place: d.uvarint(), Weight: d.count(), TTL: d.varint(), Reserve: d.uvarint(), Mark: d.varint(),
		Since: d.varint(), Reason: d.string(),
	}
}
