package engine

type Answer struct{}

type lease struct{} // want

type alone struct{}
