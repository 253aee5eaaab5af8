package scenario

// peers are the holes of other Go libraries that still show.
func peers() []Scenario { return nil }
