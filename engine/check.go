package engine

// Checker is an Engine that reports at once that it cannot work as it was made, as with
// a nil client or a bad option. A client of such an engine is not made.
type Checker interface {
	Engine

	// Check returns nil, or why every call would fail. It makes no call itself.
	Check() error
}
