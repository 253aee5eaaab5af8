package queue

type Answer struct{}

type lease struct{} // want
