//go:build !linux

package doctorstores

// filesystemOf returns that the kind is not known.
func filesystemOf(string) (string, filesystemKind) { return "not disclosed by this system", unclear }
