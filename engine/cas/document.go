package cas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// A document is what a store keeps of one resource: the time at which it can be
// forgotten, the clients of its parties, the stamps of its leases with their ages and
// witnesses if the store has no clock, and the state of its queue.
type document struct {
	state   queue.Record
	clients map[string]engine.Client // by client ID
	stamps  []uint64                 // of the state's holders; empty if the store has a clock
	ages    []queue.Time             // for how long each stamp was there, at least, when the document was made
	notes   []note                   // of the witnesses of the stamps
}

const (
	documentVersion = 2
	// forgetAt is where the 8 bytes of the time to forget are. The rest says
	// whether a document has changed.
	forgetAt   = 1
	forgetSize = 8
)

var errDocument = errors.New("cas: this is not a document of this engine")

// encode returns the bytes of a document. Clients without a party are left out.
func (d *document) encode() []byte {
	b := []byte{documentVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(d.state.Forget))
	clients := d.known()
	b = binary.AppendUvarint(b, uint64(len(clients)))
	for _, c := range clients {
		b = appendString(appendString(appendString(b, c.ID), c.Name), c.Host)
		b = binary.AppendVarint(b, int64(c.PID))
	}
	b = binary.AppendUvarint(b, uint64(len(d.stamps)))
	for _, s := range d.stamps {
		b = binary.AppendUvarint(b, s)
	}
	for _, a := range d.ages {
		b = binary.AppendUvarint(b, uint64(a))
	}
	b = appendNotes(b, d.notes)
	return queue.AppendRecord(b, d.state)
}

// known returns the clients of the document's parties that have more than an ID, in the order
// of their IDs.
func (d *document) known() []engine.Client {
	present := make(map[string]engine.Client)
	add := func(holderID string) {
		id := engine.ClientOf(holderID)
		if c, ok := d.clients[id]; ok && holderID != "" {
			present[id] = c
		}
	}
	add(d.state.Newest.ID)
	for _, h := range d.state.Holders {
		add(h.ID)
	}
	for _, w := range d.state.Waiters {
		add(w.ID)
	}
	all := make([]engine.Client, 0, len(present))
	for _, id := range slices.Sorted(maps.Keys(present)) {
		all = append(all, present[id])
	}
	return all
}

// leave drops clients if there are more than parties.
func (d *document) leave() {
	if len(d.clients) <= 1+len(d.state.Holders)+len(d.state.Waiters) {
		return
	}
	known := d.known()
	clear(d.clients)
	for _, c := range known {
		d.clients[c.ID] = c
	}
}

// forgettable reports whether the document can be dropped without loss. A party keeps it, however
// old it seems to be: on a store without a clock the time to forget is by another machine's clock.
func (d *document) forgettable(now queue.Time) bool {
	return d.state.Forget <= now && len(d.state.Holders)+len(d.state.Waiters) == 0
}

// has reports whether an ID is one of the document's parties. d may be nil.
func (d *document) has(id string) bool {
	return d != nil && (slices.ContainsFunc(d.state.Holders, func(h queue.Holder) bool { return h.ID == id }) ||
		slices.ContainsFunc(d.state.Waiters, func(w queue.Waiter) bool { return w.ID == id }))
}

// behindOthers reports whether an ID waits, and is not the first to do so.
func (d *document) behindOthers(id string) bool {
	return slices.IndexFunc(d.state.Waiters, func(w queue.Waiter) bool { return w.ID == id }) > 0
}

// client returns the client of a holder ID.
func (d *document) client(holderID string) engine.Client {
	id := engine.ClientOf(holderID)
	if c, ok := d.clients[id]; ok {
		return c
	}
	return engine.Client{ID: id}
}

// decode returns the document in the bytes of a store. No bytes are an empty document.
func decode(b []byte) (*document, error) {
	d := &document{clients: make(map[string]engine.Client)}
	if len(b) == 0 {
		return d, nil
	}
	if b[0] != documentVersion {
		return nil, fmt.Errorf("%w: its version is %d, and this program reads version %d", errDocument, b[0], documentVersion)
	}
	if len(b) < forgetAt+forgetSize {
		return nil, errDocument
	}
	forget := queue.Time(binary.BigEndian.Uint64(b[forgetAt:]))
	r := reader{rest: b[forgetAt+forgetSize:]}
	for range r.length() {
		c := engine.Client{ID: r.string(), Name: r.string(), Host: r.string(), PID: int(r.varint())}
		d.clients[c.ID] = c
	}
	for range r.length() {
		d.stamps = append(d.stamps, r.uvarint())
	}
	for range d.stamps {
		d.ages = append(d.ages, queue.Time(r.uvarint()))
	}
	d.notes = r.notes(len(d.stamps))
	if r.failed {
		return nil, errDocument
	}
	s, err := queue.DecodeRecord(r.rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDocument, err)
	}
	if len(d.stamps) != 0 && len(d.stamps) != len(s.Holders) {
		return nil, fmt.Errorf("%w: %d stamps of %d leases", errDocument, len(d.stamps), len(s.Holders))
	}
	d.state = s
	d.state.Forget = forget
	return d, nil
}

// sameDocument reports whether two encodings differ in nothing but the time to forget.
func sameDocument(a, b []byte) bool {
	const from = forgetAt + forgetSize
	return len(a) == len(b) && len(a) >= from && bytes.Equal(a[from:], b[from:])
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader reads from the front. After a failure it returns zero values.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.rest, r.failed = nil, true
		return
	}
	r.rest = r.rest[n:]
}

// length returns a number of elements, each of which takes at least a byte.
func (r *reader) length() int {
	v := r.uvarint()
	if v > uint64(len(r.rest)) {
		r.rest, r.failed = nil, true
		return 0
	}
	return int(v)
}

func (r *reader) string() string {
	n := r.length()
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}
