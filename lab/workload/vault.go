package workload

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Vault is the protected side: it reads and writes values by name, records each
// access, and may refuse tokens that are stale.
type Vault interface {
	// Access does what op says: Kind is Read or Write, Resource and Note name the
	// value, Token is presented, a Weight below Capacity is a reader's. It returns op as
	// recorded: with Value if it is a Read, and with Outcome Failed if the token
	// was refused. On an error the vault was unreachable and the outcome is unknown.
	Access(ctx context.Context, op history.Op) (history.Op, error)
}

// Half is the Note of a read of the first half of a pair.
const Half = "half"

// Memory is a Vault in this process. It records inside its mutex, so the order
// of the history is that of the effects.
type Memory struct {
	rec    *history.Recorder
	fenced bool

	mu    sync.Mutex
	cells map[place]*cell
}

type place struct{ resource, note string }

// cell is one value and the accepted tokens. A writer's token must not be below any of
// them, a reader's not below a writer's.
type cell struct {
	value           int64
	highest, writer uint64
}

// NewVault returns a Vault whose values begin at first and which claims a token
// at first contact, reads included, and refuses those below.
func NewVault(rec *history.Recorder, first map[string]int64) *Memory {
	m := NewOpenVault(rec, first)
	m.fenced = true
	return m
}

// NewOpenVault returns a Vault that ignores tokens. First is the initial values, by Note.
func NewOpenVault(rec *history.Recorder, first map[string]int64) *Memory {
	m := &Memory{rec: rec, cells: map[place]*cell{}}
	for note, v := range first {
		m.cells[place{"", note}] = &cell{value: v}
	}
	return m
}

// Access implements Vault.
func (m *Memory) Access(_ context.Context, op history.Op) (history.Op, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cell(op)
	op.Return = m.rec.Now()
	op.Outcome = history.Failed
	if !m.fenced || c.admit(op) {
		op.Outcome = history.OK
		switch {
		case op.Kind == history.Write:
			c.value = op.Value
		case op.Note == check.Pair:
			op.Value = c.value - op.Value // difference to the half read before
		default:
			op.Value = c.value
		}
	}
	m.rec.Add(op)
	return op, nil
}

func (m *Memory) cell(op history.Op) *cell {
	at := place{op.Resource, op.Note}
	if at.note == Half {
		at.note = check.Pair
	}
	c := m.cells[at]
	if c == nil {
		c = &cell{}
		if first := m.cells[place{"", at.note}]; first != nil {
			c.value = first.value
		}
		m.cells[at] = c
	}
	return c
}

// admit claims the token of an access, or refuses it.
func (c *cell) admit(op history.Op) bool {
	reader := op.Capacity > 1 && max(op.Weight, 1) < op.Capacity
	if op.Token < c.writer || !reader && op.Token < c.highest {
		return false
	}
	c.highest = max(c.highest, op.Token)
	if !reader {
		c.writer = max(c.writer, op.Token)
	}
	return true
}
