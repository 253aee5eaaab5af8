package main

import (
	"fmt"
	"time"
)

// span is a duration flag whose error says how to write one.
type span time.Duration

// UnmarshalText reads the flag's value.
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: write a number with its unit, like 500ms, 30s, 5m or 1h30m", text)
	}
	*s = span(d)
	return nil
}
