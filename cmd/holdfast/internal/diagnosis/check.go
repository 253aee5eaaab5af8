package diagnosis

import "maps"

// Again is the remedy for a check that got no answer.
const Again = "resolve the other findings, then run doctor again"

// Check adds the findings of one check to those of a report.
type Check struct {
	place  Place
	name   string
	to     *[]Finding
	was    int // how many findings there were before
	values map[string]any
}

// Check returns the check of that name.
func (p Place) Check(name string, to *[]Finding) Check {
	return Check{place: p, name: name, to: to, was: len(*to)}
}

// At returns the same check of another place, without values.
func (c Check) At(p Place) Check {
	c.place, c.values = p, nil
	return c
}

// With returns the same check, whose findings have one more value for programs.
func (c Check) With(name string, value any) Check {
	values := map[string]any{name: value}
	maps.Copy(values, c.values)
	c.values = values
	return c
}

func (c Check) add(f Finding) {
	f.Values = c.values
	*c.to = append(*c.to, f)
}

// OK adds that all is well.
func (c Check) OK(format string, args ...any) { c.add(c.place.OK(c.name, format, args...)) }

// Otherwise adds that all is well, unless there are findings since the check began.
func (c Check) Otherwise(format string, args ...any) {
	if len(*c.to) == c.was {
		c.OK(format, args...)
	}
}

// Unknown adds what cannot be seen, and how to find it out.
func (c Check) Unknown(remedy, format string, args ...any) {
	c.add(c.place.Unknown(c.name, remedy, format, args...))
}

// Unanswered adds that the check got no answer, if err is not nil, and reports that.
func (c Check) Unanswered(err error) bool {
	if err != nil {
		c.Unknown(Again, "%s", OneLine(err))
	}
	return err != nil
}

// Warn adds a warning, and what to do about it.
func (c Check) Warn(remedy, format string, args ...any) {
	c.add(c.place.Warn(c.name, remedy, format, args...))
}

// WarnIf is Warn if the condition holds.
func (c Check) WarnIf(condition bool, remedy, format string, args ...any) {
	if condition {
		c.Warn(remedy, format, args...)
	}
}

// Fail adds a failure of the configuration, and what to do about it.
func (c Check) Fail(remedy, format string, args ...any) {
	c.FailAs(Misconfig, remedy, format, args...)
}

// FailAs is Fail of another kind.
func (c Check) FailAs(fault Fault, remedy, format string, args ...any) {
	c.add(c.place.Fail(c.name, remedy, format, args...).As(fault))
}
