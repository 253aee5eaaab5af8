package x

type RWLock struct{}
