package fault

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// name matches targets, points and matches.
var name = regexp.MustCompile(`^[A-Za-z0-9_./{}-]+$`)

// Parse parses the format of Fault.String. The error names the wrong word.
func Parse(line string) (Fault, error) {
	words := strings.Fields(line)
	if len(words) < 4 || len(words)%2 != 0 {
		return Fault{}, fmt.Errorf("fault %q: want KIND TARGET [by D] [match TEXT] at WHEN [until WHEN | for D]", line)
	}
	f := Fault{Kind: Kind(words[0]), Target: words[1]}
	seen := map[string]bool{}
	for i := 2; i < len(words); i += 2 {
		if seen[words[i]] {
			return Fault{}, fmt.Errorf("fault %q: %q stands twice", line, words[i])
		}
		seen[words[i]] = true
		if err := f.set(words[i], words[i+1]); err != nil {
			return Fault{}, fmt.Errorf("fault %q: %w", line, err)
		}
	}
	if !seen["at"] {
		return Fault{}, fmt.Errorf("fault %q: it does not say at what time", line)
	}
	if err := f.Check(); err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", line, err)
	}
	return f, nil
}

func (f *Fault) set(word, value string) (err error) {
	switch word {
	case "by":
		f.By, err = time.ParseDuration(value)
	case "match":
		f.Match = value
	case "at":
		f.At, err = parseWhen(value)
	case "until":
		f.Until, err = parseWhen(value)
	case "for":
		f.For, err = time.ParseDuration(value)
	default:
		err = fmt.Errorf("unknown word %q", word)
	}
	return err
}

func parseWhen(s string) (When, error) {
	if s == "start" {
		return When{}, nil
	}
	who, rest, point := strings.Cut(s, ":")
	if !point {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 {
			return When{}, fmt.Errorf("moment %q: want start, a time, or WHO:POINT", s)
		}
		return After(d), nil
	}
	w := When{Who: who, Point: rest, Nth: 1}
	if at, nth, ok := strings.Cut(rest, "#"); ok {
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 {
			return When{}, fmt.Errorf("moment %q: want a number from 1 behind #", s)
		}
		w.Point, w.Nth = at, n
	}
	return w, w.check()
}

func (w When) check() error {
	switch {
	case w.Who == "" && (w.Point != "" || w.Nth != 0 || w.After < 0):
		return fmt.Errorf("moment %+v: a point needs somebody", w)
	case w.Who != "" && (w.After != 0 || w.Nth < 1 || !name.MatchString(w.Who) || !name.MatchString(w.Point)):
		return fmt.Errorf("moment %+v: want WHO:POINT", w)
	}
	return nil
}

// Check returns an error if a fault lacks a field, or has one that its kind does not use.
func (f Fault) Check() error {
	switch {
	case !slices.Contains(Kinds(), f.Kind):
		return fmt.Errorf("unknown kind %q: use one of %q", f.Kind, Kinds())
	case !name.MatchString(f.Target):
		return fmt.Errorf("target %q: use letters, digits and _./{}-", f.Target)
	case slices.Contains([]Kind{SlowDisk, Delay, StepClock}, f.Kind) != (f.By != 0):
		return fmt.Errorf("%s by %v: slow-disk, delay and step-clock need a duration, and only they", f.Kind, f.By)
	case f.Kind != StepClock && f.By < 0:
		return fmt.Errorf("%s by %v: it cannot be earlier", f.Kind, f.By)
	case (f.Kind == LoseReply) != (f.Match != "") || f.Match != "" && !name.MatchString(f.Match):
		return fmt.Errorf("%s match %q: lose-reply needs a text of the command, and only it", f.Kind, f.Match)
	case f.ends() && !f.Kind.ends():
		return fmt.Errorf("%s has no end", f.Kind)
	case f.Until != (When{}) && f.For != 0, f.For < 0:
		return fmt.Errorf("until %v for %v: use one of them", f.Until, f.For)
	case f.Kind == Stall && f.At.Who != f.Target:
		return fmt.Errorf("stall at %v: it needs a point of %s", f.At, f.Target)
	}
	if err := f.At.check(); err != nil {
		return err
	}
	return f.Until.check()
}

// ends reports whether the fault has an end.
func (f Fault) ends() bool { return f.Until != (When{}) || f.For != 0 }

// ends reports whether a fault of this kind can end.
func (k Kind) ends() bool {
	return slices.Contains([]Kind{Pause, Stall, HoldBack, SlowDisk, Delay, Cut, Blackhole, Deafen, Mute, Exhaust}, k)
}

// ParseSchedule parses one fault a line and skips empty lines.
func ParseSchedule(text string) (Schedule, error) {
	var s Schedule
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		f, err := Parse(line)
		if err != nil {
			return nil, err
		}
		s = append(s, f)
	}
	return s, nil
}
