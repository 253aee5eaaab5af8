package engine

// A Checker is an Engine that can report that it cannot work as configured, for
// example because of a nil client or a bad option. holdfast.New then returns
// that error.
type Checker interface {
	Engine

	// Check returns nil, or the error that every call would return. It makes no
	// call to the store.
	Check() error
}
