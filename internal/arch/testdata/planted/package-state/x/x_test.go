package x

var update bool
