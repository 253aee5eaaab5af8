package cas

import (
	"encoding/binary"
	"slices"

	"github.com/holdfast-go/holdfast/internal/queue"
)

// A note in a document says that a stamp of a lease has a witness. The zero note: it has none.
type note struct {
	witness string
	// proves is for how long the stamp has been there, at least, if the witness has vanished.
	proves queue.Time
}

// appendNotes appends the names of the witnesses, each once, and for each note the number of its witness, from 1 on.
func appendNotes(b []byte, notes []note) []byte {
	var names []string
	for _, n := range notes {
		if n.witness != "" && !slices.Contains(names, n.witness) {
			names = append(names, n.witness)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(names)))
	if len(names) == 0 {
		return b
	}
	for _, name := range names {
		b = appendString(b, name)
	}
	for _, n := range notes {
		number := slices.Index(names, n.witness) + 1
		if b = binary.AppendUvarint(b, uint64(number)); number > 0 {
			b = binary.AppendUvarint(b, uint64(n.proves))
		}
	}
	return b
}

// notes reads one note for each stamp.
func (r *reader) notes(stamps int) []note {
	var names []string
	for range r.length() {
		names = append(names, r.string())
	}
	var notes []note
	for range stamps {
		notes = append(notes, r.note(names))
	}
	return notes
}

// note reads a note, of which there is nothing if there are no witnesses.
func (r *reader) note(names []string) note {
	if len(names) == 0 {
		return note{}
	}
	number := r.uvarint()
	if number == 0 {
		return note{}
	}
	if number > uint64(len(names)) {
		r.rest, r.failed = nil, true
		return note{}
	}
	return note{witness: names[number-1], proves: queue.Time(r.uvarint())}
}
