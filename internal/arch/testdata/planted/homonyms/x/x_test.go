package x

type alone struct{}
