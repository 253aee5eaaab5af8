package x

type Answer struct{} // want
