package diagnosis

import (
	"fmt"
	"maps"
)

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

// Found returns the findings since the check began.
func (c Check) Found() []Finding { return (*c.to)[c.was:] }

func (c Check) add(status FindingStatus, fault Fault, remedy, format string, args ...any) {
	*c.to = append(*c.to, Finding{
		Check: c.name, Node: string(c.place), Status: status, Fault: fault, Found: fmt.Sprintf(format, args...), Remedy: remedy, Values: c.values,
	})
}

// OK adds that all is well.
func (c Check) OK(format string, args ...any) { c.add(OK, None, "", format, args...) }

// Otherwise is OK unless anything was found since the check began.
func (c Check) Otherwise(format string, args ...any) {
	if len(c.Found()) == 0 {
		c.OK(format, args...)
	}
}

// Unknown adds what cannot be seen, and how to find it out.
func (c Check) Unknown(remedy, format string, args ...any) {
	c.add(Unknown, None, remedy, format, args...)
}

// Unanswered adds that the check got no answer, if err is not nil, and reports that.
func (c Check) Unanswered(err error) bool {
	if err != nil {
		c.Unknown(Again, "%s", OneLine(err))
	}
	return err != nil
}

// Warn adds a warning, and what to do about it.
func (c Check) Warn(remedy, format string, args ...any) { c.add(Warn, None, remedy, format, args...) }

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
	c.add(Fail, fault, remedy, format, args...)
}
