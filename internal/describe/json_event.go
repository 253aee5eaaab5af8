package describe

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

// JSONEvent is the JSON of an event of a history. Its fields are in docs/JSON.md.
type JSONEvent struct {
	Time     time.Time            `json:"time"`
	Event    holdfast.HistoryKind `json:"event"`
	Resource string               `json:"resource,omitempty"`
	Kind     string               `json:"kind,omitempty"`
	Weight   int                  `json:"weight,omitempty"`
	Token    uint64               `json:"token,omitempty"`
	Name     string               `json:"name,omitempty"`
	Host     string               `json:"host,omitempty"`
	PID      int                  `json:"pid,omitempty"`
	Waited   float64              `json:"waited_ms"`
	Held     float64              `json:"held_ms,omitempty"`
	Cause    string               `json:"cause,omitempty"`
	Count    int                  `json:"count,omitempty"`
	Version  int                  `json:"version"`
}

// ToJSONEvent converts an event.
func ToJSONEvent(h holdfast.HistoryEvent) JSONEvent {
	return JSONEvent{
		Time: h.At.UTC(), Event: h.Event, Resource: h.Resource, Kind: h.Kind, Weight: h.Weight, Token: h.Token,
		Name: h.Name, Host: h.Client.Host, PID: h.Client.PID, Waited: Milliseconds(h.Waited), Held: Milliseconds(h.Held),
		Cause: h.Cause, Count: h.Count, Version: JSONVersion,
	}
}
