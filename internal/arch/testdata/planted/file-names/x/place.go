package x // want

type line struct{}
