package otelholdfast

import (
	"slices"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The keys of attributes.
const (
	keyKind     = attribute.Key("holdfast.kind")
	keyOutcome  = attribute.Key("holdfast.outcome")
	keySource   = attribute.Key("holdfast.source")
	keyHandOff  = attribute.Key("holdfast.handoff")
	keyState    = attribute.Key("holdfast.state")
	keyCause    = attribute.Key("holdfast.cause")
	keyResource = attribute.Key("holdfast.resource")
	keyError    = attribute.Key("error.type")
)

// maxSets bounds the sets of attributes that are kept.
const maxSets = 4096

// values are the attributes of a measurement; an empty one is left out.
type values struct {
	kind, outcome, source, handOff, state, cause, resource, err string
}

// attributes returns the values as a list.
func (v values) attributes() []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 8)
	for _, a := range [...]struct {
		key   attribute.Key
		value string
	}{
		{keyKind, v.kind}, {keyOutcome, v.outcome}, {keySource, v.source}, {keyHandOff, v.handOff},
		{keyState, v.state}, {keyCause, v.cause}, {keyResource, v.resource}, {keyError, v.err},
	} {
		if a.value != "" {
			all = append(all, a.key.String(a.value))
		}
	}
	return all
}

// set is a set of attributes, as spans and the instruments take it.
type set struct {
	list   []attribute.KeyValue
	record []metric.RecordOption
	add    []metric.AddOption
}

// sets keeps the sets that were used, since it takes longer to make one than to record a
// measurement.
type sets struct {
	mu   sync.RWMutex
	kept map[values]*set
}

func (s *sets) of(v values) *set {
	s.mu.RLock()
	known := s.kept[v]
	s.mu.RUnlock()
	if known != nil {
		return known
	}
	list := v.attributes()
	opt := metric.WithAttributeSet(attribute.NewSet(slices.Clone(list)...)) // it sorts them
	fresh := &set{list, []metric.RecordOption{opt}, []metric.AddOption{opt}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) < maxSets {
		s.kept[v] = fresh
	}
	return fresh
}
