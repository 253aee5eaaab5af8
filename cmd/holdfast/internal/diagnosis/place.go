package diagnosis

// Place is where something was found.
type Place string

// Everywhere is the place of findings about the whole store.
const Everywhere Place = "all"

// Check returns the check of that name, which adds its findings to others.
func (p Place) Check(name string, to *[]Finding) Check {
	return Check{place: p, name: name, to: to, was: len(*to)}
}
