package command

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// span is a duration flag: Go's notation, optionally with days before it (1d, 1d12h), or a bare
// number of seconds as for sleep(1) and timeout(1). Its error shows the notation.
type span time.Duration

// Decode implements kong.MapperValue, so that the error of a missing value names a duration.
func (s *span) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("duration")
	if err != nil {
		return err
	}
	return s.UnmarshalText([]byte(fmt.Sprint(token.Value)))
}

// UnmarshalText reads the flag's value.
func (s *span) UnmarshalText(text []byte) error {
	value := string(text)
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		value += "s"
	}
	days, rest := uint64(0), value
	if before, after, ok := strings.Cut(value, "d"); ok {
		if n, err := strconv.ParseUint(before, 10, 16); err == nil {
			days, rest = n, cmp.Or(after, "0s")
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 && days > 0 {
		return fmt.Errorf("%q is not a duration: write a number with its unit, such as 500ms, 30s, 5m, 1h30m or 1d; a bare number is seconds", text)
	}
	*s = span(time.Duration(days)*24*time.Hour + d)
	return nil
}
