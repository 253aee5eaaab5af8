package lab

type lease struct{}
