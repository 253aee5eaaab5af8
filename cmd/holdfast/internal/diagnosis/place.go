package diagnosis

import "fmt"

// Place is where something was found; it makes findings.
type Place string

// Everywhere is the place of findings about the whole store.
const Everywhere Place = "all"

// OK returns the finding that all is well.
func (p Place) OK(check, format string, args ...any) Finding {
	return Finding{Check: check, Node: string(p), Status: OK, Found: fmt.Sprintf(format, args...)}
}

// Unknown returns a finding about what cannot be seen, and how to find it out.
func (p Place) Unknown(check, remedy, format string, args ...any) Finding {
	return Finding{Check: check, Node: string(p), Status: Unknown, Remedy: remedy, Found: fmt.Sprintf(format, args...)}
}

// Warn returns a warning, and what to do about it.
func (p Place) Warn(check, remedy, format string, args ...any) Finding {
	return Finding{Check: check, Node: string(p), Status: Warn, Remedy: remedy, Found: fmt.Sprintf(format, args...)}
}

// Fail returns a failure of the configuration, and what to do about it; As makes it another one.
func (p Place) Fail(check, remedy, format string, args ...any) Finding {
	return Finding{Check: check, Node: string(p), Status: Fail, Fault: Misconfig, Remedy: remedy, Found: fmt.Sprintf(format, args...)}
}
