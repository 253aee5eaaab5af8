package cas

import (
	"encoding/json"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// message is the body of a Message, as JSON.
type message struct {
	Kind     engine.WakeupKind `json:"k"`
	ID       string            `json:"id"`
	Token    uint64            `json:"token,omitempty"`
	TTL      queue.Time        `json:"ttl,omitempty"`
	Deadline queue.Time        `json:"until,omitempty"`  // of a grant
	Reason   string            `json:"reason,omitempty"` // of a break
	Proposal *proposal         `json:"proposal,omitempty"`
}

// messageOf returns the message of a wake-up. The client of a grant needs its deadline.
func messageOf(prefix string, w engine.Wakeup, now queue.Time) Message {
	m := message{Kind: w.Kind, ID: w.ID, Token: w.Token, TTL: translate.Micros(w.TTL), Reason: w.Reason}
	if w.Kind == engine.WakeGrant {
		m.Deadline = now + m.TTL
	}
	body, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers always have an encoding
	}
	return Message{To: Address{Prefix: prefix, Client: engine.ClientOf(w.ID)}, Body: body}
}

// wakeup returns the wake-up in a body, as the waiter may rely on it: on a store with a clock,
// what is left of a grant counts from what the clock showed when the waiter's latest poll
// was answered. If that is not known, or polls may be older than they seem, the waiter has to poll.
// A message with a proposal has no wake-up.
func (e *Engine) wakeup(body []byte) (engine.Wakeup, *proposal, error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return engine.Wakeup{}, nil, err
	}
	w := engine.Wakeup{Kind: m.Kind, ID: m.ID, Token: m.Token, TTL: translate.Duration(m.TTL), Reason: m.Reason}
	if m.Kind == engine.WakeGrant && (e.timed || e.lagging) {
		w.TTL = 0
		if shown, ok := e.polls.shown(m.ID); ok && !e.lagging {
			w.TTL = max(0, translate.Duration(min(m.TTL, m.Deadline-shown)))
		}
	}
	return w, m.Proposal, nil
}
