package x

// TODO: say more. // want

// A todo list is a fine thing to lock.
func f() {} // FIXME // want
