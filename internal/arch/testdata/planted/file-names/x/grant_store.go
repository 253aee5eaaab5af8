package x

type storeGrant struct{}
